"""Score translations by the frequency of words: how many of the reference words does a system produce, and how many are wrong?

Words are the tokens of sacreBLEU's tokenizer for the target language. Their frequency is the count in the training references.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from raretokens.metrics.bootstrap import resample
from reproduction.tasks.evaluation.bleu import sacre_metric

# Frequency class of a word -> its largest count in the training references.
CLASSES = {"unseen": 0, "rare": 9, "medium": 99, "frequent": None}
LIMITS = "/".join(str(limit) for limit in CLASSES.values() if limit is not None)
Counts = np.ndarray  # sentences x classes


def classes(words: Sequence[str], counts: Counter[str]) -> np.ndarray:
    """Return the index of the frequency class of each word in CLASSES."""
    limits = [limit for limit in CLASSES.values() if limit is not None]
    return np.searchsorted(limits, [counts[word] for word in words])


def tokenizer(language: str) -> Any:
    """Return sacreBLEU's tokenizer for the language, or 13a where it has none."""
    return sacre_metric(language).tokenizer


def tokenise(lines: Sequence[str], language: str) -> list[list[str]]:
    """Split plain text into the tokens that sacreBLEU compares."""
    split = tokenizer(language)
    return [split(line.rstrip()).split() for line in lines]


def matches(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], counts: Counter[str]
) -> tuple[Counts, Counts, Counts]:
    """Count words by sentence and frequency class: matches, words of the hypothesis, words of the reference.

    A word matches at most as often as the reference contains the word, as in the unigram precision of BLEU.

    Args:
        hypotheses, references: Tokens of each sentence.
        counts: Count of each word in the training references.
    """
    found = np.zeros((3, len(references), len(CLASSES)), int)
    for row, (system, truth) in enumerate(zip(hypotheses, references, strict=True)):
        bags = Counter(system) & Counter(truth), Counter(system), Counter(truth)
        for part, bag in enumerate(bags):
            np.add.at(found[part, row], classes(list(bag), counts), list(bag.values()))
    return tuple(found)


def scores(matched: Counts, produced: Counts, wanted: Counts) -> dict[str, dict[str, float | None]]:
    """Return `recall`, `precision` and `f1` of each frequency class in percent; None where a class has no words."""
    values = {name: _percent(*parts) for name, parts in _ratios(*(part.sum(0) for part in (matched, produced, wanted)))}
    return {name: _by_class([None if np.isnan(x) else float(x) for x in row]) for name, row in values.items()}


def reference_words(wanted: Counts) -> dict[str, int]:
    """Return the number of reference words of each frequency class."""
    return _by_class(wanted.sum(0).tolist())


def replicates(matched: Counts, produced: Counts, wanted: Counts) -> dict[str, np.ndarray]:
    """Return bootstrap replicates of scores(), resampling sentences, as `<score>.<class>`."""
    weights = np.stack([np.bincount(row, minlength=len(matched)) for row in resample(len(matched))])
    ratios = _ratios(*(weights @ part for part in (matched, produced, wanted)))
    return {
        f"{name}.{label}": column
        for name, parts in ratios
        for label, column in zip(CLASSES, _percent(*parts).T, strict=True)
    }


def _ratios(matched: np.ndarray, produced: np.ndarray, wanted: np.ndarray) -> list[tuple[str, tuple]]:
    """Return the numerator and denominator of each score."""
    return [("recall", (matched, wanted)), ("precision", (matched, produced)), ("f1", (2 * matched, produced + wanted))]


def _percent(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return 100 * above / np.where(below == 0, np.nan, below)


def _by_class(values: Sequence) -> dict:
    return dict(zip(CLASSES, values, strict=True))
