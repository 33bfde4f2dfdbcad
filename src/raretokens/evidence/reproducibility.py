"""Reproducibility in the measures of QRA++ (Belz et al. 2022, Belz 2025), and the power of claims to see reported effects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import pearsonr, spearmanr

from raretokens.evidence.comparison import Comparison
from raretokens.evidence.effects import reported_effect
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import Outcome, Verdict
from raretokens.papers.claim import Claim
from raretokens.papers.declarations import Declarations

FEWEST_PAIRS = 3  # of a correlation of reported and measured scores
PLANNED = (3, 5)  # numbers of seeds


def cv_star(values: Sequence[float]) -> float | None:
    """Return CV*, the coefficient of variation in percent, corrected for few values.

    CV* = (1 + 1 / (4 n)) s / (c4 m), for the mean m and the standard deviation s of n values. Dividing by c4 makes s unbiased.
    None with fewer than two values, or if one is not positive, because the coefficient needs a scale that begins at zero.

    Source: Belz, Popovic and Mille 2022, section 3.
    """
    n = len(values)
    if n < 2 or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    c4 = math.sqrt(2 / (n - 1)) * math.exp(gammaln(n / 2) - gammaln((n - 1) / 2))
    return float(100 * (1 + 1 / (4 * n)) * np.std(values, ddof=1) / c4 / np.mean(values))


def correlations(reported: Sequence[float], measured: Sequence[float]) -> tuple[float, float] | None:
    """Return Pearson's and Spearman's coefficient of two sets of scores, or None with too few or equal scores."""
    if len(reported) < FEWEST_PAIRS or len(set(reported)) == 1 or len(set(measured)) == 1:
        return None
    return float(pearsonr(reported, measured).statistic), float(spearmanr(reported, measured).statistic)


@dataclass(frozen=True)
class Planned:
    """The power of a claim: number of seeds -> probability that its interval shows the reported effect."""

    claim: str
    paper: str
    task: str
    metric: str
    seeds: int  # that were run
    reported: float
    power: dict[int, float]


def powers(verdicts: Sequence[Verdict[Claim]], scores: dict[str, Scores], declared: Declarations) -> list[Planned]:
    """Return the power of each measured claim that has a reported effect and a known variance.

    Claims of no change and claims that are not testable are left out.
    """
    found = []
    for one in verdicts:
        claim, is_tested = one.claim, one.outcome not in (Outcome.NOT_RUN, Outcome.NOT_TESTABLE)
        reported = reported_effect(claim, declared)
        if reported is None or claim.margin is not None or claim.lacks_control or not is_tested:
            continue
        comparison = Comparison.of_claim(claim, scores[claim.task])
        power = {seeds: comparison.power(reported, claim.threshold, seeds) for seeds in PLANNED}
        known = {seeds: value for seeds, value in power.items() if value is not None}
        if len(known) == len(PLANNED):
            found.append(Planned(one.name, claim.paper, claim.task, claim.left.metric, one.effect.seeds, reported, known))
    return found
