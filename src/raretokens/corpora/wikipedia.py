"""Read articles of the English Wikipedia: WikiText at word level, and long articles of 2014 with one paragraph per line.

Lines are stripped. Empty lines of WikiText are kept, as in AGG's public code.
"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from raretokens.corpora.splits import lines

SERVES = {"text": ("wikitext-2", "wikitext-103", "enwiki-2014")}
LANGUAGES = {"text": "en"}
PARTS = 7  # files of the training text of enwiki-2014


def text(raw: Path, corpus: str) -> dict[str, Iterable[str]]:
    folder = raw / corpus
    if corpus != "enwiki-2014":
        return {split: lines(folder / f"wiki.{split}.tokens") for split in ("train", "valid", "test")}
    train = [lines(folder / f"train-{part:02}.txt") for part in range(PARTS)]
    return {"train": chain.from_iterable(train)} | {name: lines(folder / f"{name}.txt") for name in ("valid", "test")}
