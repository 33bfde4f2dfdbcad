"""Read long articles of the English Wikipedia of 2014, with one paragraph per line and headings as in the source."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from raretokens.corpora.splits import lines

SERVES = {"text": ("enwiki-2014",)}
LANGUAGES = {"text": "en"}
PARTS = 7  # files of the training text


def text(raw: Path, corpus: str) -> dict[str, Iterable[str]]:
    folder = raw / corpus
    train = [lines(folder / f"train-{part:02}.txt") for part in range(PARTS)]
    return {"train": chain.from_iterable(train)} | {
        split: lines(folder / f"{split}.txt") for split in ("valid", "test")
    }
