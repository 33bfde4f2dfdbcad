"""Which part of a text AGG's alpha makes rare, from the counts alone (Yu et al., 2022, section 4.1).

A type is rare while its mean count per update is below alpha. Over the whole text that mean is the type's count divided by the
updates of an epoch; so alpha stands for a frequency, and means something else for every corpus, vocabulary and batch.
"""

from typing import NamedTuple

import numpy as np

SENSIBLE = (
    0.02,
    0.5,
)  # share of the types; below it AGG is maximum likelihood, above it the frequent types are gated too
USUAL = 0.2  # AGG's rare group is 20 % of the types (section 3.1)


class Share(NamedTuple):
    """Of the rare types among all, and of the target tokens that are theirs."""

    types: float
    tokens: float


def rare_share(counts: np.ndarray, updates_per_epoch: int, threshold: float, specials: int) -> Share:
    """counts: occurrences as a training target of each type that text can use (N); the first `specials` are never rare."""
    rare = counts / updates_per_epoch < threshold
    rare[:specials] = False
    return Share(float(rare.sum() / (len(counts) - specials)), float(counts[rare].sum() / max(counts.sum(), 1)))


def threshold_for(share: float, counts: np.ndarray, updates_per_epoch: int, specials: int) -> float:
    """The smallest threshold that makes at least that share of the types rare."""
    means = np.sort(counts[specials:]) / updates_per_epoch
    last = means[min(max(int(np.ceil(share * len(means))), 1), len(means)) - 1]
    return float(np.nextafter(last, np.inf))
