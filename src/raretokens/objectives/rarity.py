"""Which part of a text AGG's alpha makes rare, from the counts alone (Yu et al., 2022, section 4.1).

A type is rare while its mean count per update is below alpha. Over the whole text that mean is the type's count divided by the
updates of an epoch; so alpha stands for a frequency, and means something else for every corpus, vocabulary and batch.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from raretokens.loss.facts import Facts

SENSIBLE = (
    0.02,
    0.5,
)  # share of the types; below it AGG is maximum likelihood, above it the frequent types are gated too
USUAL = 0.2  # AGG's rare group is 20 % of the types (section 3.1)


class Share(NamedTuple):
    """Of the rare types among all, and of the target tokens that are theirs."""

    types: float
    tokens: float


def rare_share(counts: np.ndarray, updates_per_epoch: int, threshold: float, specials: int | np.ndarray) -> Share:
    """counts: occurrences as a training target of each type that text can use (N); specials: so many first ids, or N bool, are
    never rare."""
    may = ~_marked(counts, specials)
    rare = (counts / updates_per_epoch < threshold) & may
    return Share(float(rare.sum() / may.sum()), float(counts[rare].sum() / max(counts.sum(), 1)))


def threshold_for(share: float, counts: np.ndarray, updates_per_epoch: int, specials: int | np.ndarray) -> float:
    """The smallest threshold that makes at least that share of the types rare."""
    means = np.sort(counts[~_marked(counts, specials)]) / updates_per_epoch
    last = means[min(max(int(np.ceil(share * len(means))), 1), len(means)) - 1]
    return float(np.nextafter(last, np.inf))


def _marked(counts: np.ndarray, specials: int | np.ndarray) -> np.ndarray:
    return np.arange(len(counts)) < specials if isinstance(specials, int) else specials


def seen(facts: "Facts") -> tuple[np.ndarray, int]:
    """Target counts of the types that text can use, and the updates of an epoch."""
    return facts.counts[: facts.types].cpu().numpy(), facts.updates_per_epoch


def never(facts: "Facts") -> np.ndarray:
    """Which of these types are never rare."""
    return facts.special[: facts.types].cpu().numpy()


def alpha_for(facts: "Facts", share: float = USUAL) -> float:
    """The smallest alpha of AGG that makes at least that share of the types rare: build("agg", known, alpha=alpha_for(known)).

    Raises ValueError where share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share {share} is not allowed: should lie between 0 and 1")
    return threshold_for(share, *seen(facts), never(facts))
