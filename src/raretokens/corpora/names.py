"""Which corpora and sources there are, read from their files without importing them."""

from pathlib import Path

from raretokens.declared import literal

FOLDER = Path(__file__).parent


def corpora(task: str) -> list[str]:
    """Names of the corpora of a task, from what the files of this folder declare in SERVES."""
    declared = (literal(file, "SERVES") or {} for file in FOLDER.glob("*.py"))
    return sorted(name for serves in declared for name in serves.get(task, ()))


def sources() -> list[str]:
    """Names of the sources that can be fetched."""
    return sorted(path.stem for path in (FOLDER / "table").glob("*.yaml"))
