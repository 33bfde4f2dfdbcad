"""Effects of claims, here and in print: of each seed, and on drawn test sets.

Effects are compared on a scale on which equal steps are equal effects: the logarithm of a ratio, a difference as it is.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from raretokens.reporting.claims.measuring import chosen
from raretokens.reporting.declarations.claim import Claim, Side
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.scored import Scores, Value

Sides = dict[str, Value | None]  # what is measured of a claim, by side


def effect(claim: Claim, left: float, right: float | None) -> float:
    if right is None:
        return left
    if claim.effect == "difference":
        return left - right
    if right == 0:  # nothing over nothing is no effect
        return math.copysign(math.inf, left) if left else 1.0
    return left / right


def turning_point(claim: Claim, right: float) -> float:
    """What the left number would be where the claim turns."""
    return right * claim.threshold if claim.effect == "ratio" else right + claim.threshold


def combined(claim: Claim, numbers: list[Any]) -> Any:
    """The claim's effect of a number (or an array of them) for each of its sides, the control's taken away."""
    per = len(claim.sides)
    own, control = (_pair(claim, numbers[start : start + per]) for start in (0, per))
    if control is None:
        return own
    return own / control if claim.effect == "ratio" else own - control


def by_seed(measured: Sides) -> dict[int | None, list[str | None]]:
    """Seed -> the run of each side, for the seeds that all sides have.

    What needs no model has no seed: it stands beside every seed of the others. Empty where a side has no number.
    """
    values = list(filter(None, measured.values()))
    if len(values) < len(measured):
        return {}
    found = [dict(zip(value.seeds, value.runs, strict=True)) for value in values]
    seeded = [runs for runs in found if None not in runs]
    common = [seed for seed in (seeded[0] if seeded else found[0]) if all(seed in runs for runs in seeded)]
    return {seed: [runs.get(seed, runs.get(None)) for runs in found] for seed in common}


def seed_effects(claim: Claim, measured: Sides) -> dict[int | None, float]:
    """Seed -> effect."""
    numbers = [dict(zip(value.runs, value.values, strict=True)) for value in measured.values() if value]
    return {
        seed: float(combined(claim, [number[run] for number, run in zip(numbers, runs, strict=True)]))
        for seed, runs in by_seed(measured).items()
    }


def drawn_effects(claim: Claim, measured: Sides, scores: Scores) -> np.ndarray | None:
    """The effect on drawn test sets, the mean over seeds on the scale of step(); None where no side was drawn.

    Not a number where one side was drawn and another was not.
    """
    rows = []
    for runs in by_seed(measured).values():
        drawn = [_drawn(side, run, scores) for side, run in zip(claim.all_sides.values(), runs, strict=True)]
        if all(values is None for values in drawn):
            return None
        drawn = [np.array(np.nan) if values is None else values for values in drawn]
        with np.errstate(divide="ignore", invalid="ignore"):
            rows.append(step(claim)(combined(claim, drawn)))
    return np.mean(rows, axis=0) if rows else None


def step(claim: Claim) -> Callable[[Any], Any]:
    """To the scale on which effects are added up."""
    return np.log if claim.effect == "ratio" else np.asarray


def back(claim: Claim) -> Callable[[Any], Any]:
    return np.exp if claim.effect == "ratio" else np.asarray


def printed_effect(claim: Claim, declared: Declarations) -> float | None:
    """None where the paper prints none."""
    if claim.unprinted:
        return None
    places = [side.printed for side in claim.all_sides.values()]
    if None in places:  # a control that is not printed
        places = [side.printed for side in claim.sides.values()]
    numbers = [declared.printed(file).mean(row, column, group) for file, row, column, group in places]
    return None if None in numbers else combined(claim, numbers)


def _pair(claim: Claim, numbers: list[Any]) -> Any:
    if not numbers:
        return None
    left, right = [*numbers, None][:2]
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left if right is None else left / right if claim.effect == "ratio" else left - right
    return effect(claim, left, right)


def _drawn(side: Side, run: str | None, scores: Scores) -> np.ndarray | None:
    if run is None or side.at is not None or chosen(side, scores) is None:
        return None
    return scores.replicates(run, side.metric)
