"""Which corpora and sources there are, read from their files without importing them.

What preparing a corpus is told.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from raretokens.literals import literal
from raretokens.schema import Strict

FOLDER = Path(__file__).parent


def corpora(kind: str) -> dict[str, str]:
    """Name of a corpus of that kind (text, bitext) -> the file of this folder that declares it in SERVES, without its ending."""
    return dict(sorted((name, file.stem) for file, serves in _declared("SERVES") for name in serves.get(kind, ())))


def lenders() -> dict[str, str]:
    """Test set that other corpora may borrow -> the file that declares it in TESTS."""
    return {name: file.stem for file, tests in _declared("TESTS") for name in tests}


def languages(file: str) -> dict[str, str]:
    """Of the texts that a file of this folder serves: text, source and target -> language."""
    return literal(FOLDER / f"{file}.py", "LANGUAGES")


def sources() -> list[str]:
    """Names of the sources that can be fetched."""
    return sorted(path.stem for path in (FOLDER / "table").glob("*.yaml"))


def _declared(what: str) -> Iterator[tuple]:
    for file in sorted(FOLDER.glob("*.py")):
        if value := literal(file, what):
            yield file, value


Corpus = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class PrepareJob(Strict):
    """A prepared text: one corpus, as lines or as pairs of lines."""

    kind: str  # text, bitext or similarity
    corpus: Corpus  # a name that a file of corpora/ serves
    extra_tests: list[str] = []  # of a bitext: further test sets
    languages: dict[str, str] = {}  # where its file cannot know them
    processes: int = 1
