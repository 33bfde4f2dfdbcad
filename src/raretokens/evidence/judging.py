"""Verdicts on what the papers conclude.

A claim is decided where every interval that its effect has, over seeds and over the test set, lies on one side of where the claim
turns; a claim of no change where they lie inside its margin, or outside. With fewer than three seeds the rows of the same model
lend how much seeds differ, and the verdict says how few there are; where none can, it is undecided, as it is otherwise. What no
training touches is what it is.
"""

import math
from collections.abc import Collection

import numpy as np

from raretokens.evidence import effects, intervals
from raretokens.evidence.effects import chosen, measured
from raretokens.evidence.intervals import FEWEST, Interval
from raretokens.evidence.pooled_variance import spread
from raretokens.evidence.preconditions import unmet
from raretokens.evidence.scores import Scores, Value
from raretokens.evidence.verdict import COVERED, SMALLER, Verdict
from raretokens.papers.claim import Claim
from raretokens.papers.declarations import Declarations


def judge_all(declared: Declarations, scores: dict[str, Scores]) -> list[Verdict]:
    return [judge(name, claim, scores[claim.task], declared) for name, claim in declared.claims.items()]


def judge(name: str, claim: Claim, scores: Scores, declared: Declarations) -> Verdict:
    found = measured(claim, scores)
    each = effects.seed_effects(claim, found)
    seeds, test, mean = _intervals(claim, each, found, scores)
    lacking = unmet(claim, declared.presuppositions, scores) if each else _numberless(claim, found, scores)
    printed = effects.printed_effect(claim, declared)
    verdict, reason = _verdict(claim, each, seeds, test, lacking)
    if reason == COVERED and _is_smaller(claim, printed, [one for one in (seeds, test) if one]):
        reason = SMALLER
    (seeds_low, seeds_high), (test_low, test_high) = (_ends(claim, interval) for interval in (seeds, test))
    return Verdict(
        claim=name,
        paper=claim.paper,
        place=claim.place,
        statement=claim.statement,
        metric=claim.left.metric,
        verdict=verdict,
        reason=reason,
        kind=claim.effect,
        left=_mean(found["left"], each),
        right=_mean(found.get("right"), each),
        ours=_number(mean),
        seeds_low=seeds_low,
        seeds_high=seeds_high,
        test_low=test_low,
        test_high=test_high,
        printed=_number(printed),
        seeds=str(len(each.keys() - {None})),
        runs=" / ".join(dict.fromkeys(filter(None, (chosen(side, scores) for side in claim.sides.values())))),
        note=claim.unprinted or "",
    )


def _intervals(
    claim: Claim, each: dict[int | None, float], found: effects.Sides, scores: Scores
) -> tuple[Interval | None, Interval | None, float | None]:
    """Over seeds and over the test set, on the scale of effects.step, and the mean effect itself."""
    if not each:
        return None, None, None
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = effects.step(claim)(np.array(list(each.values())))
    if not np.all(np.isfinite(steps)):
        return None, None, float(np.mean(list(each.values())))
    mean = float(np.mean(steps))
    test = intervals.over_test_set(mean, effects.drawn_effects(claim, found, scores))
    return _over_seeds(claim, steps, scores), test, float(effects.back(claim)(mean))


def _over_seeds(claim: Claim, steps: np.ndarray, scores: Scores) -> Interval | None:
    """Of its own seeds, else of what rows of its model lend; None where there is none, or no seeds in it at all."""
    if len(steps) >= FEWEST or claim.untrained:
        return intervals.over_seeds(steps)
    lent = spread(claim, scores)
    return lent and lent.about(float(np.mean(steps)), len(steps))


def _numberless(claim: Claim, found: effects.Sides, scores: Scores) -> str | None:
    """The first of its runs that is scored and has no such number all the same; None where a run is what lacks."""
    runs = {side: chosen(one, scores) for side, one in claim.sides.items()}
    if not all(run and scores.scored(run) for run in runs.values()):
        return None
    return next((f"{run} has no {claim.sides[side].metric}" for side, run in runs.items() if found[side] is None), None)


def _verdict(
    claim: Claim, each: dict[int | None, float], seeds: Interval | None, test: Interval | None, lacking: str | None
) -> tuple[str, str]:
    """Verdict and, where it decides nothing, why."""
    if not each:
        return "not run", lacking or ""
    if lacking:
        return "not testable here", lacking
    if not all(map(math.isfinite, each.values())):
        return "undecided", "an effect without end"
    if seeds is None and not claim.untrained:
        return "undecided", f"{len(each)} of {FEWEST} seeds, and no row of the same model says how much seeds differ"
    side = _side(claim, _points(claim, each) if claim.untrained else [one for one in (seeds, test) if one])
    if side is None:
        return "undecided", COVERED
    return ("holds" if side == claim.expect else "does not hold"), ""


def _points(claim: Claim, each: dict[int | None, float]) -> list[Interval]:
    """Every seed's own effect, on the scale of effects.step."""
    return [Interval(effect, effect) for effect in map(float, effects.step(claim)(np.array(list(each.values()))))]


def _side(claim: Claim, found: list[Interval]) -> str | None:
    """Where all intervals lie; None where they do not agree."""
    step = effects.step(claim)
    turn = float(step(claim.threshold))
    if claim.margin is None:
        sides = ("lower", all(one.below(turn) for one in found)), ("higher", all(one.above(turn) for one in found))
    else:
        low, high = (float(step(end)) for end in claim.margins)
        outside = all(one.below(low) for one in found) or all(one.above(high) for one in found)
        sides = ("same", all(one.inside(low, high) for one in found)), ("other", outside)
    return next((name for name, lies in sides if lies), None)


def _is_smaller(claim: Claim, printed: float | None, found: list[Interval]) -> bool:
    """Whether all intervals end before the printed effect, seen from where the claim turns.

    Of no change nothing is smaller, nor is there a print of what has a control that is not printed.
    """
    if printed is None or claim.margin is not None:
        return False
    if not found or (claim.control and any(side.printed is None for side in claim.all_sides.values())):
        return False
    far, turn = (float(effects.step(claim)(number)) for number in (printed, claim.threshold))
    return all(one.below(far) if far > turn else one.above(far) for one in found)


def _ends(claim: Claim, interval: Interval | None) -> tuple[str, str]:
    if interval is None:
        return "", ""
    return _number(float(effects.back(claim)(interval.low))), _number(float(effects.back(claim)(interval.high)))


def _mean(value: Value | None, seeds: Collection[int | None]) -> str:
    """Over the seeds that the effect is of, else over all there are."""
    return f"{(value.of(seeds) or value).mean:.6g}" if value else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
