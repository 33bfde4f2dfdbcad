"""Verdicts on claims.

A claim is decided if the interval of its effect lies on one side of its threshold. A claim of no change is decided if the
interval lies inside its margin, or outside. The interval has the variance between seeds and between test sets. An interval
without width decides nothing. q is p corrected for the number of tested claims of a family.

I(W) depends on the length of the rows. A verdict on I(W) therefore says whether I(W) at unit RMS row length agrees.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from raretokens.claims.comparison import Comparison, Direction, Effect
from raretokens.claims.effects import to_additive
from raretokens.claims.expectation import Expectation
from raretokens.claims.intervals import FEWEST_SEEDS, Interval

AnyClaim = TypeVar("AnyClaim", bound=Expectation)


class Outcome(StrEnum):
    """Outcomes of a claim. Reports list them in reverse order, reproduced claims first."""

    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable"
    NOT_RUN = "not run"
    INCONCLUSIVE = "inconclusive"
    REPRODUCED = "reproduced"


NO_POOL = "no other runs of this model have a seed variance to pool"
DECIDED = (Outcome.REPRODUCED, Outcome.CONTRADICTED)
TESTED = (*DECIDED, Outcome.INCONCLUSIVE)
COVERED = "the interval contains the threshold"
SMALLER = f"{COVERED}; the interval does not reach the reported effect"
NO_WIDTH = "the effect is the same on every seed and resampled test set, so how much it varies is not known"
UNCHANGED = "the effect is exactly no change on every seed and resampled test set"
HIGHEST_Q = 0.05  # at which a difference is established among several
LEAST_FRACTION = 0.5  # of the reported effect, for a claim that is reproduced in direction and size
RAW, UNIT = "isotropy.", "isotropy_unit_rms."  # beginnings of the paths of I(W), and of I(W) at unit RMS row length


class Extent(StrEnum):
    """What of a reported effect is reproduced."""

    SIZE = "direction and size"
    DIRECTION = "direction only"


class Size(StrEnum):
    """The measured effect compared with the reported effect."""

    INCLUDED = "interval includes the reported effect"
    SMALLER = "smaller than reported"
    LARGER = "larger than reported"
    OPPOSITE = "opposite to the reported effect"
    NO_CHANGE = "claim of no change"
    ONE_NUMBER = "claim on one number"
    NO_NUMBER = "no reported number"


class UnitLength(StrEnum):
    """The side of a threshold on which I(W) at unit RMS length lies, compared with that of I(W)."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    INCONCLUSIVE = "inconclusive"  # the interval of one of them contains the threshold, or has no known width
    NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Verdict(Generic[AnyClaim]):
    """The result of a claim."""

    name: str
    claim: AnyClaim
    outcome: Outcome
    reason: str  # why nothing is decided; empty for decided outcomes
    effect: Effect
    reported: float | None  # the effect that the paper reports
    runs: tuple[str, ...]
    p: float | None = None  # two-sided; below 0.05 if the claim is decided; None if its runs do not test it, or if it is exact
    q: float | None = None  # p by Benjamini and Hochberg among the claims of the family that have p
    family: str = ""  # paper and kind of metric; empty for a claim that no family has
    counted_with: str = ""  # claim that is counted for this conclusion, perhaps itself; empty if no count has it
    setting: str = ""  # name of the setting of its runs; empty if they are of several settings, or of none
    unit_length: UnitLength | None = None  # for a tested claim on I(W): whether I(W) at unit RMS length agrees
    reported_left: float | None = None  # the numbers of the two sides that the paper reports
    reported_right: float | None = None

    @property
    def is_of_few_seeds(self) -> bool:
        """Whether the verdict is decided with fewer than three seeds."""
        return self.outcome in DECIDED and self.effect.has_few_seeds

    @property
    def extent(self) -> Extent | None:
        """Whether a reproduced effect is at least half of the reported one; None if the claim is not reproduced.

        A claim without a comparable reported effect, such as a claim of no change or on one number, is reproduced in direction
        only.
        """
        if self.outcome != Outcome.REPRODUCED:
            return None
        fraction = self.fraction(self.effect.value)
        return Extent.SIZE if fraction is not None and fraction >= LEAST_FRACTION else Extent.DIRECTION

    def fraction(self, number: float | None) -> float | None:
        """Return a number of the effect as a fraction of the reported effect. For a ratio, both are logarithms.

        Return None for a claim of no change or on one number, and if the paper does not report the effect or its control. One
        number has no reported effect: half of a number that is expected to be low is a stronger result, not half of one.
        """
        claim = self.claim
        if number is None or self.reported is None or not claim.has_comparable_size or claim.effect == "value":
            return None
        own, whole = (
            float(to_additive(claim.effect, one) - to_additive(claim.effect, claim.neutral))
            for one in (number, self.reported)
        )
        return own / whole if whole and math.isfinite(own) else None

    @property
    def size(self) -> Size | None:
        """The interval compared with the reported effect; None if the effect was not measured."""
        value = self.fraction(self.effect.value)
        if value is None:
            if self.effect.value is None:
                return None
            if self.reported is not None and self.claim.margin is not None:
                return Size.NO_CHANGE
            return Size.ONE_NUMBER if self.reported is not None and self.claim.effect == "value" else Size.NO_NUMBER
        ends = self.fraction_interval or Interval(value, value)
        if ends.high < 0:
            return Size.OPPOSITE
        if ends.high < 1:
            return Size.SMALLER
        return Size.LARGER if ends.low > 1 else Size.INCLUDED

    @property
    def fraction_interval(self) -> Interval | None:
        """The interval as fractions of the reported effect, or None without an interval or a reported effect."""
        ends = [self.fraction(end) for end in self.effect.main_interval or (None,)]
        return None if None in ends else Interval(*sorted(ends))


def with_q(verdicts: list[Verdict[AnyClaim]], family: Callable[[AnyClaim], str]) -> list[Verdict[AnyClaim]]:
    """Return the verdicts with q, which is Benjamini and Hochberg's adjusted p among the tested claims of a family.

    `family` returns the family of a claim, or an empty text for a claim that has no q.
    """
    from scipy.stats import false_discovery_control  # slow to import, and only reports need it

    families: dict[str, dict[str, float]] = {}
    for one in verdicts:
        if one.p is not None and (own := family(one.claim)):
            families.setdefault(own, {})[one.name] = one.p
    q: dict[str, float] = {}
    for p in families.values():
        q |= dict(zip(p, map(float, false_discovery_control(list(p.values()))), strict=True))
    return [replace(one, q=q.get(one.name), family=family(one.claim)) for one in verdicts]


def verdict_on(
    name: str, claim: AnyClaim, comparison: Comparison, reported: float | None, obstacle: str | None = None
) -> Verdict[AnyClaim]:
    """Return the verdict on the comparison of a claim.

    `reported` is the effect that the paper reports. `obstacle` says why the claim is not testable on these runs.
    """
    outcome, reason = decide(comparison, claim.expect, claim.margins, obstacle)
    if reason == COVERED and reported is not None and _is_smaller(claim, comparison, reported):
        reason = SMALLER
    has_p = outcome in TESTED and comparison.posterior and not comparison.lacks_variance
    has_length = outcome in TESTED and claim.sides["left"].metric.startswith(RAW)
    runs = (run for side, run in comparison.runs.items() if side in claim.sides and run)
    return Verdict(
        name=name,
        claim=claim,
        outcome=outcome,
        reason=reason,
        effect=comparison.effect,
        reported=reported,
        runs=tuple(dict.fromkeys(runs)),
        p=min(comparison.p_values(*claim.margins).values()) if has_p else None,
        unit_length=_at_unit_length(comparison, claim.margins) if has_length else None,
    )


def decide(
    comparison: Comparison, expected: str, bounds: tuple[float, float], obstacle: str | None = None
) -> tuple[Outcome, str]:
    """Return the outcome, and the reason if nothing is decided.

    `expected` is lower, higher or same, compared with the lowest and highest effect that count as no change. `obstacle` says why
    the claim is not testable on these runs.
    """
    effects = comparison.seed_effects
    if not effects:
        return Outcome.NOT_RUN, _missing_metric(comparison) or ""
    if obstacle or (comparison.is_constant and expected != "same"):
        return Outcome.NOT_TESTABLE, obstacle or UNCHANGED
    if not all(map(math.isfinite, effects.values())):
        return Outcome.INCONCLUSIVE, "the effect is not finite"
    if comparison.interval is None and not comparison.is_untrained:
        return Outcome.INCONCLUSIVE, f"only {len(effects)} of {FEWEST_SEEDS} seeds were run, and {NO_POOL}"
    if comparison.lacks_variance:
        return Outcome.INCONCLUSIVE, NO_WIDTH
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


def _is_smaller(claim: Expectation, comparison: Comparison, reported: float) -> bool:
    """Whether the interval ends before the paper's effect, seen from the threshold.

    False for a claim of no change, and if the paper does not report the control.
    """
    interval = comparison.interval
    if interval is None or not claim.has_comparable_size:
        return False
    far, turn = (float(to_additive(claim.effect, number)) for number in (reported, claim.threshold))
    return interval.high < far if far > turn else interval.low > far


def _at_unit_length(comparison: Comparison, margins: tuple[float, float]) -> UnitLength:
    """Compare the same runs by I(W) at unit RMS length.

    Args:
        comparison: of a metric that begins with RAW.
        margins: lowest and highest effect that count as no change.
    """
    replaced = {
        name: side.replaced(metric=UNIT + side.metric.removeprefix(RAW)) if side.metric.startswith(RAW) else side
        for name, side in comparison.all_sides.items()
    }
    at_unit = Comparison(comparison.kind, replaced, comparison.scores)
    if not at_unit.seed_effects:
        return UnitLength.NOT_RECORDED
    raw, unit = (_direction(one, margins) for one in (comparison, at_unit))
    if raw is None or unit is None:
        return UnitLength.INCONCLUSIVE
    return UnitLength.AGREES if raw == unit else UnitLength.DISAGREES


def _direction(comparison: Comparison, margins: tuple[float, float]) -> Direction | None:
    if comparison.lacks_variance or not comparison.is_finite:
        return None
    return comparison.direction(*margins)
