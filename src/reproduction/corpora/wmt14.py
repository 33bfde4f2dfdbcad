"""Read WMT14 English -> German, with every 100th training pair for validation as in the public code of AGG.

The training text is Europarl v7, Common Crawl and News Commentary v9, in this order. The test set is newstest2014. Any
English-German corpus can use the news test sets as extra test sets. All text is tokenised by Moses. The stage `encode` filters
pairs by length in subword tokens (`vocabulary` under `tokens` in params.yaml).
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from reproduction.corpora.moses import Recipe
from reproduction.corpora.splits import pairs

SERVES = {"bitext": ("wmt14",)}
LANGUAGES = {"source": "en", "target": "de"}
TOKENISE = Recipe(normalise=True, hyphens=True)
TESTS = ("newstest2013", "newstest2014")
PARTS = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")
EVERY = 100


def bitext(raw: Path, corpus: str) -> dict[str, Iterator[tuple[str, str]]]:
    return {
        "train": (pair for number, pair in _numbered(raw) if number % EVERY),
        "valid": (pair for number, pair in _numbered(raw) if not number % EVERY),
        "test": test(raw, "newstest2014"),
    }


def test(raw: Path, name: str) -> Iterator[tuple[str, str]]:
    return pairs(raw / "wmt-newstest" / f"{name}.en", raw / "wmt-newstest" / f"{name}.de")


def _numbered(raw: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    folder = raw / "wmt14"
    return enumerate(chain.from_iterable(pairs(folder / f"{part}.en", folder / f"{part}.de") for part in PARTS), 1)
