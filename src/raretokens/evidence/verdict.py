"""Verdicts on the conclusions of the papers.

A claim is decided if the interval of its effect lies on one side of its threshold. A claim of no change is decided if the
interval lies inside its margin, or outside. The interval has the variance between seeds and between test sets. An interval
without width decides nothing. q is p corrected for the number of tested claims of the paper on the same kind of metric.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import ge, gt, le, lt
from typing import Generic, TypeVar

from raretokens.evidence.comparison import Comparison, Effect
from raretokens.evidence.effects import reported_effect, reported_numbers, to_additive, value_of
from raretokens.evidence.intervals import FEWEST_SEEDS, Interval
from raretokens.evidence.scores import Scores
from raretokens.evidence.settings import nearest
from raretokens.evidence.unit_length import RAW, UnitLength, at_unit_length
from raretokens.papers.claim import Claim, Expectation, Precondition, Side
from raretokens.papers.declarations import Declarations

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
HIGHEST_Q = 0.05  # of a main claim that is decided
LEAST_FRACTION = 0.5  # of the reported effect, for a claim that is reproduced in direction and size
STRENGTHS = (Outcome.CONTRADICTED, Outcome.INCONCLUSIVE, Outcome.REPRODUCED, Outcome.NOT_TESTABLE, Outcome.NOT_RUN)


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


def judge_all(declared: Declarations, scores: dict[str, Scores]) -> list[Verdict[Claim]]:
    """Return the verdicts on all claims. A main claim is decided only if its q is at most HIGHEST_Q."""

    def family(claim: Claim) -> str:
        return "" if claim.hardly_fails else f"{claim.paper} {declared.metric(claim.left.metric).kind}"

    found = [judge_alone(name, claim, scores[claim.task], declared) for name, claim in declared.claims.items()]
    return with_counts([_in_its_setting(_of_many(one), declared) for one in with_q(found, family)], declared)


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


def _of_many(verdict: Verdict[Claim]) -> Verdict[Claim]:
    """Return a main claim as inconclusive if it is decided by its own interval, but not among the claims of its family."""
    if not verdict.claim.main or verdict.outcome not in DECIDED or verdict.q is None or verdict.q <= HIGHEST_Q:
        return verdict
    reason = f"q is {verdict.q:.2g} in the family {verdict.family}, and a main claim needs {HIGHEST_Q}"
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)


def with_counts(verdicts: list[Verdict[Claim]], declared: Declarations) -> list[Verdict[Claim]]:
    """Return the verdicts with the claim that is counted for each. A conclusion that two papers share has that of the first."""
    shown = conclusions(verdicts, declared)
    weakest = {one.claim.effect_key: one.name for one in counted(shown)}
    counts = {one.claim.comparison_key: weakest.get(one.claim.effect_key, "") for one in shown if not one.claim.hardly_fails}
    found = []
    for one in verdicts:
        is_open = _is_conclusion(one.claim, declared) and not one.claim.hardly_fails
        found.append(replace(one, counted_with=counts.get(one.claim.comparison_key, "") if is_open else ""))
    return found


def counted(shown: Iterable[Verdict[Claim]]) -> list[Verdict[Claim]]:
    """Return the conclusions that are counted: the weakest verdict on each effect, without claims that can hardly fail.

    Conclusions that were not tested count only where no conclusion on the effect was.
    """
    effects: dict[Hashable, list[Verdict[Claim]]] = {}
    for one in shown:
        if not one.claim.hardly_fails:
            effects.setdefault(one.claim.effect_key, []).append(one)
    return [min(own, key=lambda one: (STRENGTHS.index(one.outcome), one.extent == Extent.SIZE)) for own in effects.values()]


def conclusions(verdicts: Iterable[Verdict], declared: Declarations) -> list[Verdict]:
    """Return the verdicts on the conclusions of the counted papers, each once if two papers share it."""
    once: dict[str, Verdict] = {}
    for verdict in verdicts:
        if _is_conclusion(verdict.claim, declared):
            once.setdefault(verdict.claim.comparison_key, verdict)
    return list(once.values())


def _is_conclusion(claim: Claim, declared: Declarations) -> bool:
    return not claim.is_ours and claim.paper in declared.counted_papers


def conclusions_of(paper: str, verdicts: Iterable[Verdict], declared: Declarations) -> list[Verdict]:
    """Return the verdicts on the conclusions of a paper. Those of a later paper are in no count of all papers."""
    if paper in declared.counted_papers:
        return [one for one in conclusions(verdicts, declared) if one.claim.paper == paper]
    return [one for one in verdicts if one.claim.paper == paper and not one.claim.is_ours]


def judge(name: str, claim: Claim, scores: Scores, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict on a claim of a paper by its own p, in the nearest setting that has its runs."""
    return _in_its_setting(judge_alone(name, claim, scores, declared), declared)


def judge_alone(name: str, claim: Claim, scores: Scores, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict of `judge`, where a claim may be inconclusive in any setting."""
    setting, own = nearest(declared.settings, scores, claim)
    return replace(judge_in(own, name, claim, declared), setting=setting)


def comparison_of(claim: Claim, scores: Scores, declared: Declarations) -> Comparison:
    """Return the comparison of a claim in the nearest setting that has its runs."""
    return Comparison.of_claim(claim, nearest(declared.settings, scores, claim)[1])


def judge_in(scores: Scores, name: str, claim: Claim, declared: Declarations) -> Verdict[Claim]:
    """Return the verdict on a claim in the setting of the scores."""
    comparison = Comparison.of_claim(claim, scores)
    obstacle = claim.by_construction or unmet([declared.preconditions[need] for need in claim.needs], comparison)
    numbers = reported_numbers(claim, declared)
    found = verdict_on(name, claim, comparison, reported_effect(claim, declared), obstacle)
    return replace(found, reported_left=numbers["left"], reported_right=numbers.get("right"))


def _in_its_setting(verdict: Verdict[Claim], declared: Declarations) -> Verdict[Claim]:
    """Return an inconclusive verdict as not testable if its setting is not like the paper's.

    It keeps p and q. Otherwise a family would lose the claims that are not decided, and q of the others would be too small.
    """
    why = declared.settings[verdict.setting].reason if verdict.setting else ""
    if verdict.outcome != Outcome.INCONCLUSIVE or not why:
        return verdict
    return replace(verdict, outcome=Outcome.NOT_TESTABLE, reason=why, unit_length=None)


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
        unit_length=at_unit_length(comparison, claim.margins) if has_length else None,
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


def unmet(preconditions: Iterable[Precondition], comparison: Comparison) -> str | None:
    """Return why the claim is not testable on the comparison's runs, or None. A missing number is a reason, too."""
    reasons = [reason for precondition in preconditions for reason in _reasons(precondition, comparison)]
    return "; ".join(dict.fromkeys(reasons)) or None


class _NoNumber(Exception):
    """A number of a precondition is missing. The message says which."""


def _reasons(precondition: Precondition, comparison: Comparison) -> Iterator[str]:
    """Yield a reason for each run that fails the precondition or lacks a number. `both` means the sides that are trained."""
    own, sides = precondition.of, comparison.sides.items()
    of_sides = [side.runs for name, side in sides if own == name or own == "both" and not side.data]
    for names in of_sides if own else [precondition.run]:
        try:
            if not _is_met(precondition, names, comparison.scores):
                yield precondition.reason
        except _NoNumber as missing:
            yield str(missing)


def _is_met(precondition: Precondition, names: list[str], scores: Scores) -> bool:
    number = _number_of(names, precondition.metric, scores)
    above, below = (
        None if reference is None else _number_of(reference.run, reference.metric, scores)
        for reference in (precondition.above, precondition.below)
    )
    bounds = ((ge, precondition.least), (le, precondition.most), (gt, above), (lt, below))
    return all(bound is None or is_on_side(number, bound) for is_on_side, bound in bounds)


def _number_of(names: list[str], metric: str, scores: Scores) -> float:
    """Return the mean of a metric, or the option for `options.<name>`, of the first of the names that is known.

    Raises:
        _NoNumber: if no name is known, or if the run lacks the metric.
    """
    run = scores.choose(names) or scores.choose(names, data=True)
    if run is None:
        raise _NoNumber(f"no run named {' or '.join(scores.own_names(names))} has {metric}")
    if metric.startswith("options."):
        number = scores.fact(run, metric)
    else:  # `run` is a name in the setting already
        side = Side(runs=[run], metric=metric, data=run not in scores.lines)
        value = value_of(side, scores.in_setting(None), None)
        number = value.mean if value else None
    if number is None:
        raise _NoNumber(f"{run} has no {metric}")
    return number
