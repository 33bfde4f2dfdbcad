"""Share of types and tokens that AGG's alpha makes rare, computed from counts alone (Yu et al., 2022, section 4.1).

A type is rare while its mean count per training step is below alpha. Over the whole text, that mean is the type's count divided
by the training steps per epoch. Alpha is thus a frequency threshold that depends on corpus, vocabulary and batch.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from raretokens.loss.facts import Facts

# Share of the types. Below this range AGG is maximum likelihood, above it frequent types are gated too.
SENSIBLE = (0.02, 0.5)
USUAL = 0.2  # AGG's rare group is 20 % of the types (section 3.1)


class Share(NamedTuple):
    """Share of rare types among all types, and share of target tokens of rare types (both 0 to 1)."""

    types: float
    tokens: float


def rare_share(counts: np.ndarray, steps_per_epoch: int, threshold: float, specials: int | np.ndarray) -> Share:
    """Return the rare shares of types and target tokens.

    Args:
        counts: N, occurrences as a training target of each type that text can use.
        threshold: mean count per training step below which a type is rare.
        specials: types that are never rare, as a number of first ids or as a bool mask of length N.
    """
    may = ~_marked(counts, specials)
    rare = (counts / steps_per_epoch < threshold) & may
    return Share(float(rare.sum() / may.sum()), float(counts[rare].sum() / max(counts.sum(), 1)))


def threshold_for(share: float, counts: np.ndarray, steps_per_epoch: int, specials: int | np.ndarray) -> float:
    """Return a threshold that makes at least that share of the types rare, and no more types than necessary.

    Counts are integers, and the threshold lies between two of them: AGG compares float32 numbers, so a threshold next to a count
    would not separate it. Arguments are as in `rare_share`.
    """
    ascending = np.sort(counts[~_marked(counts, specials)])
    last = ascending[min(max(int(np.ceil(share * len(ascending))), 1), len(ascending)) - 1]
    return float(last + 0.5) / steps_per_epoch


def _marked(counts: np.ndarray, specials: int | np.ndarray) -> np.ndarray:
    return np.arange(len(counts)) < specials if isinstance(specials, int) else specials


def seen(facts: "Facts") -> tuple[np.ndarray, int]:
    """Return the target counts of the types that text can use, and the training steps per epoch."""
    return facts.counts[: facts.types].cpu().numpy(), facts.steps_per_epoch


def never(facts: "Facts") -> np.ndarray:
    """Return a bool mask of the types in `seen` that are never rare."""
    return facts.special[: facts.types].cpu().numpy()


def alpha_for(facts: "Facts", share: float = USUAL) -> float:
    """Return an alpha of AGG that makes at least that share of the types rare, and no more types than necessary.

    Example: `build("agg", known, alpha=alpha_for(known))`.

    Raises:
        ValueError: if share is not between 0 and 1, or all types are special tokens.
    """
    if not 0 < share < 1:
        raise ValueError(f"share {share} is not allowed: should lie between 0 and 1")
    if never(facts).all():
        raise ValueError("all types are special tokens, which are never rare: no alpha makes a type rare")
    return threshold_for(share, *seen(facts), never(facts))
