"""What each method improves or degrades compared with maximum likelihood, on the same model and text.

Effects and outcomes are computed in the same way as those of claims.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from raretokens.claims.comparison import Comparison, Effect
from raretokens.claims.expectation import NEUTRAL
from raretokens.claims.verdict import Outcome, decide
from reproduction.papers.declarations import Declarations
from reproduction.papers.logit_bias import LogitBiasBaseline, baselines
from reproduction.papers.setting import TASKS
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import unmet

WORDS: dict[Outcome, str] = {
    Outcome.REPRODUCED: "better",
    Outcome.CONTRADICTED: "worse",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.NOT_TESTABLE: "not testable",
}
LEAST = 0.01  # smallest relative change that counts as an improvement or a degradation
EXPLAINED_BY_BIAS = "ppl.rare"  # the metric that the logit-bias baseline is computed for


@dataclass(frozen=True)
class Change:
    """A metric of a run compared with the same metric of maximum likelihood."""

    task: str
    run: str
    baseline: str
    objective: str
    model: str  # config of params.yaml
    metric: str
    title: str
    effect: Effect
    outcome: Outcome  # of the expectation that the method improves the metric
    logit_bias: float | None  # ratio of the logit-bias baseline, or an upper bound on it; rare-token perplexity only
    measured_baseline: LogitBiasBaseline | None = None  # without it, logit_bias is a bound

    @property
    def verdict(self) -> str:
        """better, worse, inconclusive or not testable."""
        return WORDS[self.outcome]

    @property
    def share(self) -> float:
        """The relative change: |log ratio| of positive numbers, infinity if a number falls to 0, else |difference| / maximum."""
        left, right = self.effect.left, self.effect.right
        assert left is not None and right is not None
        if left > 0 < right:
            return abs(math.log(left / right))
        return math.inf if left == 0 < right else abs(left - right) / (max(abs(left), abs(right)) or 1.0)

    @property
    def improves(self) -> bool:
        """Whether the metric is better by at least LEAST, and certainly better than the logit-bias baseline."""
        return self.verdict == "better" and self.share >= LEAST and self.compared_with_bias in (None, "better")

    @property
    def compared_with_bias(self) -> Literal["better", "not better", "inconclusive"] | None:
        """The run compared with the logit-bias baseline; None if it is not known.

        Of a bound only `not better` follows. The interval of a measured baseline decides, which needs three seeds.
        """
        value = self.effect.value
        if self.logit_bias is None or value is None:
            return None
        if self.measured_baseline is None:
            return "not better" if self.logit_bias <= value else "inconclusive"
        ends = self.measured_baseline.interval
        if ends is None or ends.low <= 1 <= ends.high:
            return "inconclusive"
        return "better" if ends.high < 1 else "not better"

    @property
    def degrades(self) -> bool:
        """Whether the metric is worse by at least LEAST."""
        return self.verdict == "worse" and self.share >= LEAST


def changes(declared: Declarations, scores: dict[str, TaskScores]) -> list[Change]:
    """Return the changes of each run, repetitions excluded, that has a baseline run of maximum likelihood."""
    return [
        change
        for part in scores.values()
        for run in part.repetitions
        if (baseline := part.baseline_run(run))
        for change in _changes(run, baseline, part, declared)
    ]


def _changes(run: str, baseline: str, scores: TaskScores, declared: Declarations) -> Iterator[Change]:
    for metric, kind, needs in TASKS[scores.task].compared.values():
        comparison = Comparison.of_runs(kind, metric, run, baseline, scores)
        if not comparison.seed_effects:
            continue
        shown = declared.metric(metric)
        obstacle = unmet([declared.preconditions[need] for need in needs], comparison)
        bias, measured = None, None
        if metric == EXPLAINED_BY_BIAS:
            measured = next((one for one in baselines(run, scores) if one.is_main), None)
            bias = measured.rare if measured else logit_bias_bound(run, baseline, scores)
        yield Change(
            task=scores.task,
            run=run,
            baseline=baseline,
            objective=scores.lines[run].objective,
            model=scores.lines[run].model,
            metric=metric,
            title=shown.title,
            effect=comparison.effect,
            outcome=decide(comparison, shown.better, (NEUTRAL[kind], NEUTRAL[kind]), obstacle)[0],
            logit_bias=bias,
            measured_baseline=measured,
        )


def logit_bias_bound(run: str, baseline: str, scores: TaskScores) -> float | None:
    """Return an upper bound on the ratio of rare-token perplexities of the logit-bias baseline to maximum likelihood.

    The baseline is maximum likelihood plus one constant on the logits of all rare types, chosen to give the rare types the
    run's mean probability. Let m be their probability at a position under maximum likelihood. A constant with factor c
    changes it to c m / (1 + (c - 1) m), which is concave in m for c > 1. So c is at least the odds of the run's mean divided
    by the odds of the mean of m. The mean of log((1 + (c - 1) m) / c) over rare targets is at most that of their mean m. The
    result is the geometric mean over the seeds that both runs have. It is None if a number is missing, or if the run gives
    rare types no more probability.
    """
    total, before, of_rare = (
        value.by_seed if (value := scores.value(name, metric)) else {}
        for name, metric in ((run, "rare_mass.total"), (baseline, "rare_mass.total"), (baseline, "rare_mass.rare"))
    )
    seeds = [seed for seed in total if seed in before and seed in of_rare]
    if not seeds or any(total[seed] <= before[seed] for seed in seeds):
        return None
    factors = {seed: _odds(total[seed]) / _odds(before[seed]) for seed in seeds}
    return geometric_mean((1 + (factors[seed] - 1) * of_rare[seed]) / factors[seed] for seed in seeds)


def _odds(share: float) -> float:
    return share / (1 - share)
