"""Read WikiText at word level. Lines are stripped and empty lines are kept, as in AGG's public code."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.corpora.splits import lines

SERVES = {"text": ("wikitext-2", "wikitext-103")}
LANGUAGES = {"text": "en"}


def text(raw: Path, corpus: str) -> dict[str, Iterator[str]]:
    return {split: lines(raw / corpus / f"wiki.{split}.tokens") for split in ("train", "valid", "test")}
