"""Read articles of the English Wikipedia: WikiText at word level, and long articles of 2014 with one paragraph per line.

`enwiki-2014-half` has the first three of the seven training files, which are 48 % of the text. Lines are
stripped. Empty lines of WikiText are kept, as in AGG's public code.
"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from reproduction.corpora.splits import lines

SERVES = {"text": ("wikitext-2", "wikitext-103", "enwiki-2014", "enwiki-2014-half")}
LANGUAGES = {"text": "en"}
PARTS = {"enwiki-2014": 7, "enwiki-2014-half": 3}  # number of training files


def text(raw: Path, corpus: str) -> dict[str, Iterable[str]]:
    if corpus not in PARTS:
        return {split: lines(raw / corpus / f"wiki.{split}.tokens") for split in ("train", "valid", "test")}
    folder = raw / "enwiki-2014"
    train = [lines(folder / f"train-{part:02}.txt") for part in range(PARTS[corpus])]
    return {"train": chain.from_iterable(train)} | {name: lines(folder / f"{name}.txt") for name in ("valid", "test")}
