"""Read the news test sets of WMT, English -> German, as extra test sets of any English-German corpus."""

from collections.abc import Iterator
from pathlib import Path

from raretokens.corpora.splits import pairs

LANGUAGES = {"source": "en", "target": "de"}
TESTS = ("newstest2013", "newstest2014")


def test(raw: Path, name: str) -> Iterator[tuple[str, str]]:
    return pairs(raw / "wmt-newstest" / f"{name}.en", raw / "wmt-newstest" / f"{name}.de")
