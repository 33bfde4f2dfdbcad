"""Read Multi30k task 1, English -> German, as raw text. The test set is of 2016, and later ones are extra test sets."""

from collections.abc import Iterator
from pathlib import Path

from reproduction.corpora.splits import pairs

SERVES = {"bitext": ("multi30k",)}
LANGUAGES = {"source": "en", "target": "de"}
TESTS = ("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")


def bitext(raw: Path, corpus: str) -> dict[str, Iterator[tuple[str, str]]]:
    return {"train": test(raw, "train"), "valid": test(raw, "val"), "test": test(raw, "test_2016_flickr")}


def test(raw: Path, name: str) -> Iterator[tuple[str, str]]:
    return pairs(raw / "multi30k" / f"{name}.en", raw / "multi30k" / f"{name}.de")
