"""Is one translation system better than another on this test set, or on this draw of sentences only?"""

import numpy as np

from raretokens.evaluation.metrics.bootstrap import DRAWS, SEED
from raretokens.evidence.intervals import over_test_set

METRIC = "bleu.sacrebleu"
SIGNATURE = f"bs:{DRAWS}|seed:{SEED}|interval:percentile-95"


def paired_bootstrap(delta: float, drawn: np.ndarray) -> dict[str, float]:
    """delta, low, high and p of a difference (Koehn 2004); drawn: the difference on each drawn test set, the same for both.

    p: two-sided, of the same draws as the interval, so that it is below 0.05 where the interval leaves 0 out.
    """
    interval = over_test_set(delta, drawn)
    found = {"delta": delta, "p": _p(drawn - drawn.mean() + delta)}
    return {**found, "low": interval.low, "high": interval.high} if interval else {}


def _p(differences: np.ndarray) -> float:
    """Twice the smaller share of draws on a side of 0, both sides counting those at 0."""
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    return float(min(1.0, 2 * max(tail, 1 / (len(differences) + 1))))
