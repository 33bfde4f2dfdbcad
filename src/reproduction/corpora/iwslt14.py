"""Read IWSLT14 German -> English (TED talks), prepared like the usual public script: lower case, five test sets joined.

Training text is tokenised and filtered by length in words. Every 23rd remaining pair is for validation. The Perl tokeniser gives
160,239 training and 7,283 validation pairs. Another tokeniser may move a few pairs across the length limits.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from reproduction.corpora.moses import Recipe
from reproduction.corpora.splits import LongestAndRatio, lines, pair_lines

SERVES = {"bitext": ("iwslt14",)}
LANGUAGES = {"source": "de", "target": "en"}
TOKENISE = Recipe(normalise=False, hyphens=False, lower=True)
BLEU = {"case": "lower", "compounds": "kept"}
CLEAN = LongestAndRatio(longest=175, ratio=1.5)
EVERY = 23
TESTS_OF = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

ABOUT = ("<url>", "<talkid>", "<keywords>")  # tags of metadata lines
TAGS = re.compile("</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="\d+">\s*(.*?)\s*</seg>')


class Part:
    """Filter of a split: apply CLEAN, then assign every EVERY-th remaining pair to validation and the others to training."""

    def __init__(self, split: str) -> None:
        self.is_validation, self.number = split == "valid", 0
        self.other = "in the training text" if self.is_validation else "in the validation text"

    def reasons(self) -> list[str]:
        return [*CLEAN.reasons(), self.other]

    def __call__(self, source: str, target: str) -> str | None:
        if reason := CLEAN(source, target):
            return reason
        self.number += 1
        return None if (self.number % EVERY == 0) == self.is_validation else self.other


def filters() -> dict[str, Part]:
    return {split: Part(split) for split in ("train", "valid")}


def bitext(raw: Path, corpus: str) -> dict[str, Iterator[tuple[str, str]]]:
    """Return split -> pairs. Training and validation contain the same pairs, which filters() separates."""
    folder = raw / "iwslt14"
    tests = (_pairs(folder, f"IWSLT14.{name}.de-en.{{}}.xml", _segments) for name in TESTS_OF)
    talks = {split: _pairs(folder, "train.tags.de-en.{}", _talks) for split in ("train", "valid")}
    return talks | {"test": chain.from_iterable(tests)}


def _pairs(folder: Path, name: str, read: Callable[[Path], Iterator[str]]) -> Iterator[tuple[str, str]]:
    source, target = (folder / name.format(LANGUAGES[side]) for side in ("source", "target"))
    return pair_lines(source, read(source), target, read(target))


def _talks(file: Path) -> Iterator[str]:
    return (TAGS.sub("", line) for line in lines(file) if not any(tag in line for tag in ABOUT))


def _segments(file: Path) -> Iterator[str]:
    return (found[1] for line in lines(file) if (found := SEGMENT.search(line)))
