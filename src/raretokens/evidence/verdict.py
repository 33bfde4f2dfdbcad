"""Verdicts on the conclusions of the papers.

A claim is decided if all intervals of its effect, over seeds and over the test set, lie on one side of its threshold. A claim
of no change is decided if they all lie inside its margin, or all outside. With fewer than three seeds the seed variance is
pooled from other runs of the same model, and the verdict reports the number of seeds.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from raretokens.evidence.comparison import Comparison, Effect
from raretokens.evidence.effects import reported_effect, to_additive
from raretokens.evidence.intervals import FEWEST_SEEDS, Interval
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Claim, Precondition, Reference
from raretokens.papers.declarations import Declarations


class Outcome(StrEnum):
    """Outcomes of a claim. Reports list them in reverse order, reproduced claims first."""

    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable"
    NOT_RUN = "not run"
    INCONCLUSIVE = "inconclusive"
    REPRODUCED = "reproduced"


NO_POOL = "no other runs of this model have a seed variance to pool"
DECIDED = (Outcome.REPRODUCED, Outcome.CONTRADICTED)
COVERED = "an interval contains the threshold"
SMALLER = f"{COVERED}; no interval reaches the reported effect"


class Size(StrEnum):
    """The measured effect compared with the reported effect."""

    REACHED = "reaches the reported effect"
    SMALLER = "smaller than reported"
    LARGER = "larger than reported"
    NO_NUMBER = "no reported number"


@dataclass(frozen=True)
class Verdict:
    """The result of a claim."""

    name: str
    claim: Claim
    outcome: Outcome
    reason: str  # why nothing is decided; empty for decided outcomes
    effect: Effect
    reported: float | None  # the effect that the paper reports
    runs: tuple[str, ...]

    @property
    def is_of_few_seeds(self) -> bool:
        """Whether the verdict is decided by the pooled seed variance."""
        return self.outcome in DECIDED and self.effect.has_few_seeds

    def fraction(self, number: float | None) -> float | None:
        """Return a number of the effect as a fraction of the reported effect. For a ratio, both are logarithms.

        Return None for a claim of no change, and if the paper does not report the effect or its control.
        """
        claim = self.claim
        lacks_control = claim.control and any(side.reported is None for side in claim.all_sides.values())
        if number is None or self.reported is None or claim.margin is not None or lacks_control:
            return None
        own, whole = (
            float(to_additive(claim.effect, one) - to_additive(claim.effect, claim.neutral)) for one in (number, self.reported)
        )
        return own / whole if whole and math.isfinite(own) else None

    @property
    def main_interval(self) -> Interval | None:
        """The interval over seeds, or the interval over the test set if there is none over seeds."""
        return self.effect.seed_interval or self.effect.test_interval

    @property
    def size(self) -> Size | None:
        """The effect compared with the reported effect by all intervals; None if the effect was not measured."""
        if self.fraction(self.effect.value) is None:
            return Size.NO_NUMBER if self.effect.value is not None else None
        intervals = [one for one in (self.effect.seed_interval, self.effect.test_interval) if one]
        ends = [[self.fraction(end) or 0.0 for end in one] for one in intervals or [(self.effect.value,)]]
        if all(max(pair) < 1 for pair in ends):
            return Size.SMALLER
        return Size.LARGER if all(min(pair) > 1 for pair in ends) else Size.REACHED


def judge_all(declared: Declarations, scores: dict[str, Scores]) -> list[Verdict]:
    """Return the verdicts on all claims."""
    return [judge(name, claim, scores[claim.task], declared) for name, claim in declared.claims.items()]


def conclusions(verdicts: Iterable[Verdict], declared: Declarations) -> list[Verdict]:
    """Return the verdicts that are counted: the conclusions of the reproduced papers, each once if two papers share it."""
    once: dict[str, Verdict] = {}
    for verdict in verdicts:
        if not verdict.claim.is_ours and verdict.claim.paper in declared.papers:
            once.setdefault(verdict.claim.comparison_key, verdict)
    return list(once.values())


def judge(name: str, claim: Claim, scores: Scores, declared: Declarations) -> Verdict:
    """Return the verdict on a claim."""
    comparison = Comparison.of_claim(claim, scores)
    reported = reported_effect(claim, declared)
    obstacle = unmet([declared.preconditions[need] for need in claim.needs], comparison)
    outcome, reason = decide(comparison, claim.expect, claim.margins, obstacle)
    if reason == COVERED and reported is not None and _is_smaller(claim, comparison, reported):
        reason = SMALLER
    runs = (run for side, run in comparison.runs.items() if side in claim.sides and run)
    return Verdict(
        name=name,
        claim=claim,
        outcome=outcome,
        reason=reason,
        effect=comparison.effect,
        reported=reported,
        runs=tuple(dict.fromkeys(runs)),
    )


def decide(
    comparison: Comparison, expected: str, bounds: tuple[float, float], obstacle: str | None = None
) -> tuple[Outcome, str]:
    """Return the outcome and, the reason if nothing is decided.

    Args:
        comparison: the comparison of the claim.
        expected: lower, higher or same, compared with the bounds.
        bounds: lowest and highest effect that count as no change.
        obstacle: why the claim is not testable on these runs; None: it is testable.
    """
    effects = comparison.seed_effects
    if not effects:
        return Outcome.NOT_RUN, _missing_metric(comparison) or ""
    if obstacle:
        return Outcome.NOT_TESTABLE, obstacle
    if not all(map(math.isfinite, effects.values())):
        return Outcome.INCONCLUSIVE, "the effect is not finite"
    if comparison.seed_interval is None and not comparison.is_untrained:
        return Outcome.INCONCLUSIVE, f"only {len(effects)} of {FEWEST_SEEDS} seeds were run, and {NO_POOL}"
    direction = comparison.direction(*bounds)
    if direction is None:
        return Outcome.INCONCLUSIVE, COVERED
    return (Outcome.REPRODUCED if direction == expected else Outcome.CONTRADICTED), ""


def _missing_metric(comparison: Comparison) -> str | None:
    """Name the first run that has scores but lacks the metric. Return None if a run has no scores."""
    scores, sides = comparison.scores, comparison.sides
    if not all((run := comparison.runs[name]) and scores.scored(run) for name in sides):
        return None
    lacking = (name for name in sides if comparison.values[name] is None)
    return next((f"{comparison.runs[name]} has no {sides[name].metric}" for name in lacking), None)


def _is_smaller(claim: Claim, comparison: Comparison, reported: float) -> bool:
    """Whether all intervals end before the paper's effect, seen from the threshold.

    False for a claim of no change, and if the paper does not report the control.
    """
    intervals = comparison.intervals
    if claim.margin is not None or not intervals:
        return False
    if claim.control and any(side.reported is None for side in claim.all_sides.values()):
        return False
    far, turn = (float(to_additive(claim.effect, number)) for number in (reported, claim.threshold))
    return all(interval.is_below(far) if far > turn else interval.is_above(far) for interval in intervals)


def unmet(preconditions: Iterable[Precondition], comparison: Comparison) -> str | None:
    """Return why the claim is not testable on the comparison's runs, or None. Runs without scores are not checked."""
    reasons = [reason for precondition in preconditions for reason in _reasons(precondition, comparison)]
    return "; ".join(dict.fromkeys(reasons)) or None


def _reasons(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    """Yield a reason for each run that fails the precondition, or that has scores but lacks the metric."""
    scores = comparison.scores
    for run in _runs(precondition, comparison):
        number = _number_of(run, precondition.metric, scores)
        if number is not None and not all(_is_met(precondition, number, scores)):
            yield precondition.reason
        elif number is None and run in scores.lines and scores.scored(run):
            yield f"{run} has no {precondition.metric}"


def _runs(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    if precondition.run:
        run = _choose(precondition.run, comparison.scores)
        yield from [run] if run else []
        return
    for name in comparison.sides:
        if precondition.of in (name, "both") and (run := comparison.runs[name]):
            yield run


def _is_met(precondition: Precondition, number: float, scores: Scores) -> Iterator[bool]:
    yield precondition.least is None or number >= precondition.least
    yield precondition.most is None or number <= precondition.most
    yield (other := _reference(precondition.above, scores)) is None or number > other
    yield (other := _reference(precondition.below, scores)) is None or number < other


def _reference(reference: Reference | None, scores: Scores) -> float | None:
    run = _choose(reference.run, scores) if reference else None
    return _number_of(run, reference.metric, scores) if reference and run else None


def _choose(names: list[str], scores: Scores) -> str | None:
    return scores.choose(names) or scores.choose(names, data=True)


def _number_of(run: str, metric: str, scores: Scores) -> float | None:
    """Return the mean of a metric, or the run's option for `options.<name>`."""
    if metric.startswith("options."):
        return scores.fact(run, metric)
    value = scores.value(run, metric)
    return value.mean if value else None
