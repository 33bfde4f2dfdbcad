"""What token files are described by."""

from pathlib import Path

from raretokens.subword.streams import read_meta

ORDER = ("train", "valid", "test")


def splits(folder: Path) -> dict[str, dict[str, int]]:
    """Tokens and lines of train, valid and test, in this order, and of what else there is."""
    described = read_meta(folder)["splits"]
    return {
        name: described[name]
        for name in (*ORDER, *(name for name in described if name not in ORDER))
        if name in described
    }
