"""Confidence intervals: Student's t over seeds, and bootstrap percentiles over the test set."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from raretokens.evaluation.metrics.bootstrap import REPLICATES, SEED

LEVEL = 0.95
FEWEST_SEEDS = 3  # two say little about how much seeds differ
SIGNATURE = f"bs:{REPLICATES}|seed:{SEED}|interval:percentile-95"  # of a paired bootstrap


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float

    def is_below(self, bound: float) -> bool:
        return self.high < bound

    def is_above(self, bound: float) -> bool:
        return self.low > bound

    def is_inside(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high


def t_interval(centre: float, deviation: float, freedom: float, seeds: float) -> Interval:
    """Student's t interval of the mean over so many seeds; deviation: from seed to seed, with these degrees of freedom."""
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * (deviation / seeds**0.5)
    return Interval(centre - reach, centre + reach)


def bootstrap_interval(effect: float, bootstrap: np.ndarray) -> Interval:
    """Percentile interval of an effect, from its values on resampled test sets.

    A resampled test set has fewer different blocks than the whole, hence fewer types in it: the mean of the resamples is not
    the effect, but their spread is its spread. Unbounded where one of them is not finite.
    """
    if not np.isfinite(effect) or not np.all(np.isfinite(bootstrap)):
        return Interval(-np.inf, np.inf)
    low, high = np.percentile(bootstrap - bootstrap.mean(), [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(effect + low), float(effect + high))


def paired_bootstrap(delta: float, bootstrap: np.ndarray) -> dict[str, float]:
    """delta, low, high and p of a difference (Koehn 2004); bootstrap: the difference on each resampled test set.

    p: two-sided, of the same resamples as the interval, so that it is below 0.05 where the interval excludes 0.
    """
    low, high = bootstrap_interval(delta, bootstrap)
    return {"delta": delta, "p": _p(bootstrap - bootstrap.mean() + delta), "low": low, "high": high}


def _p(differences: np.ndarray) -> float:
    """Twice the smaller share of resamples on a side of 0, both sides counting those at 0."""
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    return float(min(1.0, 2 * max(tail, 1 / (len(differences) + 1))))
