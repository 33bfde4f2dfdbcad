"""Nursery rhymes with a verse in each line; of five lines, one is for validation and one for testing."""

from pathlib import Path

from reproduction.corpora.splits import lines

SERVES = {"text": ("rhymes",)}
LANGUAGES = {"text": "en"}
PARTS = {"train": (0, 1, 2), "valid": (3,), "test": (4,)}  # number of a line, modulo 5


def text(raw: Path, corpus: str) -> dict[str, list[str]]:
    rows = list(enumerate(lines(raw / "rhymes" / "rhymes.txt")))
    return {split: [row for number, row in rows if number % 5 in part] for split, part in PARTS.items()}
