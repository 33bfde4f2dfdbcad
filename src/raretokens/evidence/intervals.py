"""Intervals of effects: over seeds, and over the sentences, blocks or word pairs of the test set."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95
FEWEST = 3  # seeds: two say little of how much seeds differ


class Interval(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float

    def below(self, bound: float) -> bool:
        return self.high < bound

    def above(self, bound: float) -> bool:
        return self.low > bound

    def inside(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high


def over_seeds(effects: Sequence[float]) -> Interval | None:
    """Student's t interval of the mean effect; None with fewer than three seeds, or where an effect is not finite."""
    if len(effects) < FEWEST or not np.all(np.isfinite(effects)):
        return None
    centre, error = float(np.mean(effects)), float(np.std(effects, ddof=1)) / len(effects) ** 0.5
    reach = float(stdtrit(len(effects) - 1, (1 + LEVEL) / 2)) * error
    return Interval(centre - reach, centre + reach)


def over_test_set(effect: float, drawn: np.ndarray | None) -> Interval | None:
    """Percentile interval of the effect on drawn test sets, about the effect on the whole one.

    A drawn test set has fewer different blocks than the whole, hence fewer types in it: its mean is not the whole one's, but its
    spread is. None where the effect was not drawn; without end where it is not finite on some draw: that decides nothing.
    """
    if drawn is None:
        return None
    if not np.isfinite(effect) or not np.all(np.isfinite(drawn)):
        return Interval(-np.inf, np.inf)
    low, high = np.percentile(drawn - drawn.mean(), [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(effect + low), float(effect + high))
