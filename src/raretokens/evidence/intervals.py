"""Confidence intervals: Student's t over seeds, and bootstrap percentiles over the test set."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from raretokens.evaluation.metrics.bootstrap import REPLICATES, SEED

LEVEL = 0.95
FEWEST_SEEDS = 3  # two seeds give a poor estimate of the seed variance
SIGNATURE = f"bs:{REPLICATES}|seed:{SEED}|interval:percentile-95"  # signature of a paired bootstrap


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
    """Return Student's t interval of a mean over seeds.

    Args:
        centre: the mean.
        deviation: standard deviation between seeds.
        freedom: degrees of freedom of the deviation.
        seeds: number of seeds in the mean.
    """
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * (deviation / seeds**0.5)
    return Interval(centre - reach, centre + reach)


def bootstrap_interval(effect: float, bootstrap: np.ndarray) -> Interval:
    """Return the percentile interval of an effect, from its values on resampled test sets.

    A resampled test set has fewer distinct blocks than the whole test set, and hence fewer token types. The mean over
    resamples is therefore not the effect, so the interval is their centred distribution, shifted to the effect. The interval
    is unbounded if the effect or a resample is not finite.
    """
    if not np.isfinite(effect) or not np.all(np.isfinite(bootstrap)):
        return Interval(-np.inf, np.inf)
    low, high = np.percentile(bootstrap - bootstrap.mean(), [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(effect + low), float(effect + high))


def paired_bootstrap(delta: float, bootstrap: np.ndarray) -> dict[str, float]:
    """Return delta, p, low and high of a difference (Koehn 2004).

    p is two-sided and uses the resamples of the interval, so that p is below 0.05 where the interval excludes 0.

    Args:
        delta: the difference on the whole test set.
        bootstrap: the difference on each resampled test set.
    """
    low, high = bootstrap_interval(delta, bootstrap)
    return {"delta": delta, "p": _p(bootstrap - bootstrap.mean() + delta), "low": low, "high": high}


def _p(differences: np.ndarray) -> float:
    """Return twice the smaller share of resamples on one side of 0. Both sides include the resamples at 0."""
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    return float(min(1.0, 2 * max(tail, 1 / (len(differences) + 1))))
