"""Confidence intervals: of a mean over seeds from moderated variances, and of bootstrap percentiles over the test set.

Moderation (Smyth 2004) lets the rows of a model together say how much seeds differ. The model is that of limma. Row i has a
variance v_i with d_i degrees of freedom, and v_i / s0^2 follows an F distribution with d_i and d0 degrees of freedom. s0^2 is
the prior variance. d0, the prior degrees of freedom, says how alike the rows are: infinity if all have the same variance. limma
inserts moment estimates of d0 and s0^2. With thousands of genes they are exact, with a dozen rows they are not, and the intervals
are too short. Here the interval averages over all d0 and s0^2, weighted by their likelihood.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln, polygamma, stdtr

LEVEL = 0.95
FEWEST_SEEDS = 3  # of Student's t from a run's own seeds
FREEDOMS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, np.inf)  # values of d0, with equal prior weights
SPREAD = np.linspace(-5.0, 5.0, 41)  # log s0^2 minus the log of its centre, with equal prior weights
IGNORED = 1e-4  # share of the posterior weight that is left out
LEAST = 1e-5  # smallest variance as a share of the median, because the logarithm of 0 is not finite
NORMAL = 1e9  # degrees of freedom where t is normal


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


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

    p is two-sided and uses the resamples of the interval, so that p is below 0.05 where the interval excludes 0. `delta` is the
    difference on the whole test set, and `bootstrap` that on each resampled test set.
    """
    low, high = bootstrap_interval(delta, bootstrap)
    differences = bootstrap - bootstrap.mean() + delta
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))  # both sides include the resamples at 0
    return {"delta": delta, "p": float(min(1.0, 2 * max(tail, 1 / (len(differences) + 1)))), "low": low, "high": high}


class Prior(NamedTuple):
    """Prior degrees of freedom d0 and prior variance s0^2; shape (...)."""

    freedom: np.ndarray
    variance: np.ndarray


def fit_prior(variances: np.ndarray, freedom: np.ndarray) -> Prior:
    """Return the moment estimates of limma's fitFDist.

    Args:
        variances: of the rows; shape (..., rows).
        freedom: their degrees of freedom; shape (rows,).

    Source: Smyth 2004, section 6.2, from the mean and the variance of the logarithms. If these vary no more than equal
    variances would, d0 is infinite and s0^2 is the mean variance.
    """
    half, raised = freedom / 2, offset(variances)
    logs = np.log(raised) - digamma(half) + np.log(half)
    excess = np.var(logs, axis=-1, ddof=1) - np.mean(polygamma(1, half))
    found = inverse_trigamma(np.where(excess > 0, excess, 1.0))
    scale = np.exp(np.mean(logs, axis=-1) + digamma(found) - np.log(found))
    is_finite = excess > 0
    return Prior(np.where(is_finite, 2 * found, np.inf), np.where(is_finite, scale, np.mean(raised, axis=-1)))


def inverse_trigamma(values: np.ndarray) -> np.ndarray:
    """Return x > 0 where the trigamma function has these values, by Newton's method on its reciprocal (Smyth 2004)."""
    found = 0.5 + 1 / np.asarray(values, float)  # below the root, from where the steps are monotone
    for _ in range(50):
        trigamma = polygamma(1, found)
        step = trigamma * (1 - trigamma / values) / polygamma(2, found)
        found = found + step
        if np.all(np.abs(step) <= 1e-12 * found):
            break
    return found


def offset(variances: np.ndarray) -> np.ndarray:
    """Return variances that are at least LEAST of the median of the rows."""
    return np.maximum(variances, LEAST * np.median(variances, axis=-1, keepdims=True))


class EffectPart(NamedTuple):
    """The mean over seeds of one run, as a part of an effect."""

    variance: np.ndarray | float  # between the run's own seeds; shape (...)
    freedom: float  # its degrees of freedom; 0 with one seed
    seeds: int


@dataclass(frozen=True)
class Posterior:
    """The distribution of the variance of an effect, as a mixture over d0 and s0^2."""

    weights: np.ndarray  # shape (..., nodes), sum 1
    variances: np.ndarray  # of the effect; shape (..., nodes)
    freedoms: np.ndarray  # shape (..., nodes)

    def plus(self, variance: float, freedom: float) -> "Posterior":
        """Return the posterior with an independent variance added (Satterthwaite)."""
        total = self.variances + variance
        with np.errstate(divide="ignore", invalid="ignore"):
            freedoms = total**2 / (self.variances**2 / self.freedoms + variance**2 / freedom)
        return Posterior(self.weights, total, np.where(np.isfinite(freedoms), freedoms, NORMAL))

    def combined(self, other: "Posterior") -> "Posterior":
        """Return the posterior of the sum of two independent effects; shape (nodes,)."""
        one, two = self._pruned(), other._pruned()
        variances = np.add.outer(one.variances, two.variances).ravel()
        freedoms = np.minimum.outer(one.freedoms, two.freedoms).ravel()
        return Posterior(np.outer(one.weights, two.weights).ravel(), variances, freedoms)

    def _pruned(self) -> "Posterior":
        """Return the nodes with the largest weights, which have all but IGNORED of the weight; shape (nodes,)."""
        order = np.argsort(-self.weights, kind="stable")
        kept = order[: int(np.searchsorted(np.cumsum(self.weights[order]), 1 - IGNORED)) + 1]
        return Posterior(self.weights[kept] / self.weights[kept].sum(), self.variances[kept], self.freedoms[kept])

    def p(self, distance: np.ndarray | float) -> np.ndarray:
        """Return the two-sided p of effects at these distances from a bound; shape (...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = -np.abs(np.asarray(distance, float))[..., None] / np.sqrt(self.variances)
        tails = stdtr(self.freedoms, np.where(np.isnan(t), 0.0, t))  # 0 / 0 is no evidence
        return np.minimum(1.0, 2 * np.sum(self.weights * tails, axis=-1))

    def reach(self, level: float) -> float:
        """Return half the width of the interval that has this level; for the shape (nodes,)."""
        unit = float(np.sqrt(np.max(self.variances)))
        if not np.isfinite(unit):
            return np.inf
        if unit == 0 or self.p(1e-12 * unit) <= 1 - level:
            return 0.0
        high = unit
        while self.p(high) > 1 - level:
            high *= 4
        return float(brentq(lambda x: float(self.p(x)) - (1 - level), 0.0, high, xtol=1e-12 * unit, rtol=1e-12))

    def interval(self, centre: float) -> Interval:
        """Return the 95 % interval of an effect; for the shape (nodes,)."""
        reach = self.reach(LEVEL)
        return Interval(centre - reach, centre + reach)


def student(deviation: float, freedom: float) -> Posterior:
    """Return the posterior of Student's t: a standard error with its degrees of freedom."""
    return Posterior(np.ones(1), np.array([deviation**2]), np.array([freedom]))


def moderated(variances: np.ndarray, freedom: np.ndarray, parts: Sequence[EffectPart]) -> Posterior:
    """Return the posterior of the variance of a sum of parts.

    Under one d0 and s0^2 the variance of a part is (d0 s0^2 + d v) / (d0 + d) with d0 + d degrees of freedom. The sum has those
    of the part that has fewest, which is the conservative choice for unequal variances.

    Args:
        variances: of all rows of the model that have several seeds; shape (..., rows).
        freedom: their degrees of freedom; shape (rows,).
        parts: the runs of the effect, whose own variances are among those of the rows.
    """
    raised = offset(variances)
    scales = fit_prior(raised, freedom).variance[..., None] * np.exp(SPREAD)  # values of s0^2; shape (..., scales)
    ratios = np.log(raised[..., None, :] / scales[..., None])  # shape (..., scales, rows)
    nodes = [(_log_likelihood(ratios, freedom, prior), *_of_parts(prior, scales, parts)) for prior in FREEDOMS]
    likelihood, sums, freedoms = (np.concatenate([node[part] for node in nodes], axis=-1) for part in range(3))
    weights = np.exp(likelihood - likelihood.max(axis=-1, keepdims=True))
    return Posterior(weights / weights.sum(axis=-1, keepdims=True), sums, freedoms)


def _of_parts(prior: float, scales: np.ndarray, parts: Sequence[EffectPart]) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of the sum and its degrees of freedom for each s0^2 of `scales`."""
    if np.isinf(prior):
        return scales * sum(1 / part.seeds for part in parts), np.full_like(scales, NORMAL)
    own = [(np.asarray(variance, float)[..., None] * freedom, freedom, seeds) for variance, freedom, seeds in parts]
    shrunk = [(prior * scales + squares) / (prior + freedom) / seeds for squares, freedom, seeds in own]
    return sum(shrunk), np.full_like(scales, prior + min(part.freedom for part in parts))


def _log_likelihood(ratios: np.ndarray, freedom: np.ndarray, prior: float) -> np.ndarray:
    """Return the log-likelihood of d0 and s0^2 without the factors that all share; shape (..., scales).

    Args:
        ratios: logarithms of the rows' variances divided by s0^2; shape (..., scales, rows).
        freedom: degrees of freedom of the rows; shape (rows,).
        prior: d0.
    """
    half = freedom / 2
    if np.isinf(prior):
        terms = half * np.log(half) - gammaln(half) + half * ratios - half * np.exp(ratios)
    else:
        odds = ratios + np.log(freedom / prior)
        terms = half * odds - betaln(half, prior / 2) - (half + prior / 2) * np.log1p(np.exp(odds))
    return terms.sum(axis=-1)
