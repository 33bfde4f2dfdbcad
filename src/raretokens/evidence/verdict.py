"""Verdicts on what the papers conclude.

A claim is decided where every interval of its effect, over seeds and over the test set, lies on one side of its threshold. A
claim of no change is decided where they all lie inside its margin, or all outside. With fewer than three seeds the seed variance
is pooled from other runs of the same model, and the verdict says how few seeds there are.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from raretokens.evidence.comparison import Comparison, Effect
from raretokens.evidence.effects import reported_effect, to_additive
from raretokens.evidence.intervals import FEWEST_SEEDS
from raretokens.evidence.scores import Scores
from raretokens.papers.claim import Claim, Precondition, Reference
from raretokens.papers.declarations import Declarations


class Outcome(StrEnum):
    """What fails or was left out comes before what is reproduced."""

    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable"
    NOT_RUN = "not run"
    INCONCLUSIVE = "inconclusive"
    REPRODUCED = "reproduced"


NO_POOL = "no other runs of this model have a seed variance to pool"
DECIDED = (Outcome.REPRODUCED, Outcome.CONTRADICTED)
COVERED = "an interval contains the threshold"
SMALLER = f"{COVERED}; no interval reaches the reported effect"


@dataclass(frozen=True)
class Verdict:
    """What came of a claim."""

    name: str
    claim: Claim
    outcome: Outcome
    reason: str  # of an outcome that decides nothing
    effect: Effect
    reported: float | None  # the paper's effect
    runs: tuple[str, ...]

    @property
    def is_of_few_seeds(self) -> bool:
        """Whether it decides something by the pooled seed variance."""
        return self.outcome in DECIDED and self.effect.has_few_seeds


def judge_all(declared: Declarations, scores: dict[str, Scores]) -> list[Verdict]:
    return [judge(name, claim, scores[claim.task], declared) for name, claim in declared.claims.items()]


def judge(name: str, claim: Claim, scores: Scores, declared: Declarations) -> Verdict:
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
    """The outcome and, where it decides nothing, why.

    expected: lower, higher or same, compared with the bounds. obstacle: why the runs cannot test it.
    """
    effects = comparison.seed_effects
    if not effects:
        return Outcome.NOT_RUN, _missing_metric(comparison) or ""
    if obstacle:
        return Outcome.NOT_TESTABLE, obstacle
    if not all(map(math.isfinite, effects.values())):
        return Outcome.INCONCLUSIVE, "the effect is not finite"
    if comparison.seed_interval is None and not comparison.is_untrained:
        return Outcome.INCONCLUSIVE, f"{len(effects)} of {FEWEST_SEEDS} seeds, and {NO_POOL}"
    direction = comparison.direction(*bounds)
    if direction is None:
        return Outcome.INCONCLUSIVE, COVERED
    return (Outcome.REPRODUCED if direction == expected else Outcome.CONTRADICTED), ""


def _missing_metric(comparison: Comparison) -> str | None:
    """The first run that has scores but not its metric; None where a run has no scores."""
    scores, sides = comparison.scores, comparison.sides
    if not all((run := comparison.runs[name]) and scores.scored(run) for name in sides):
        return None
    lacking = (name for name in sides if comparison.values[name] is None)
    return next((f"{comparison.runs[name]} has no {sides[name].metric}" for name in lacking), None)


def _is_smaller(claim: Claim, comparison: Comparison, reported: float) -> bool:
    """Whether all intervals end before the paper's effect, seen from the threshold.

    No effect is smaller than that of a claim of no change, nor is one whose control the paper does not report.
    """
    intervals = comparison.intervals
    if claim.margin is not None or not intervals:
        return False
    if claim.control and any(side.reported is None for side in claim.all_sides.values()):
        return False
    far, turn = (float(to_additive(claim.effect, number)) for number in (reported, claim.threshold))
    return all(interval.is_below(far) if far > turn else interval.is_above(far) for interval in intervals)


def unmet(preconditions: Iterable[Precondition], comparison: Comparison) -> str | None:
    """Why the comparison's runs cannot test it, or None. A run without scores is not checked."""
    reasons = [reason for precondition in preconditions for reason in _reasons(precondition, comparison)]
    return "; ".join(dict.fromkeys(reasons)) or None


def _reasons(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    """One for each run that does not meet the precondition, or has scores but not its metric."""
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
    """A metric, or an option of the run as `options.<name>`."""
    if metric.startswith("options."):
        return scores.fact(run, metric)
    value = scores.value(run, metric)
    return value.mean if value else None
