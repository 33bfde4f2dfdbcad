"""Effects of claims, here and in print: of each seed, and on drawn test sets.

Effects are compared on a scale on which equal steps are equal effects: the logarithm of a ratio, a difference as it is.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from raretokens.evidence.scores import Scores, Value
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations

NEIGHBOURS = "neighbours.rare"  # a share that is counted from the listed neighbours


def chosen(side: Side, scores: Scores) -> str | None:
    return scores.choose(side.runs, data=side.data)


def measured(claim: Claim, scores: Scores, until: float | None = None) -> dict[str, Value | None]:
    """Side -> its metric over seeds.

    until: when rows thaw, for runs whose rows never do. Else when those of the claim's own run do, in its control too.
    """
    run = chosen(claim.left, scores)
    until = until or (scores.option(run, "until") if run else None)
    return {name: _measured(side, scores, until) for name, side in claim.all_sides.items()}


def _measured(side: Side, scores: Scores, until: float | None) -> Value | None:
    """until: the update that `at: until` means where the run has no such option."""
    run = chosen(side, scores)
    if run is None:
        return None
    if side.at is not None:
        return scores.over_seeds(run, lambda name: _on_curve(side, scores, name, until))
    if side.metric == NEIGHBOURS:
        return scores.over_seeds(run, lambda name: _rare_neighbours(scores.read(name) or {}))
    return scores.value(run, side.metric)


def _rare_neighbours(score: dict) -> float | None:
    """Share of the rare group among the nearest neighbours of all queries; None without neighbours."""
    groups = [group for _, listed in score.get("neighbours", []) for _, _, group in listed]
    return groups.count("rare") / len(groups) if groups else None


def _on_curve(side: Side, scores: Scores, name: str, until: float | None) -> float | None:
    """Value of a run's curve at a moment of training; None where the run has no such curve or moment.

    A share is of the last update (the nearest point counts); `until` is the run's option of that name (the last point that is not
    after it).
    """
    curve = _curve(side.metric, scores, name)
    moment = (scores.option(name, "until") or until) if side.at == "until" else side.at
    if curve.empty or moment is None:
        return None
    if isinstance(moment, str):
        return _extreme(curve.y, moment)
    if side.at == "until":
        return float(curve.y[curve.x <= moment].iloc[-1])
    return float(curve.y.iloc[(curve.x - moment * curve.x.iloc[-1]).abs().argmin()])


def _curve(metric: str, scores: Scores, name: str) -> pd.DataFrame:
    """x and y of series.group, or of all groups of a series."""
    series, _, group = metric.partition(".")
    points = scores.points(name)
    own = (points.series == series) & ((points.group == group) | (not group))
    return points.loc[own, ["x", "y"]].astype(float)


def _extreme(values: pd.Series, which: str) -> float:
    ends = {"first": values.iloc[0], "last": values.iloc[-1], "lowest": values.min(), "highest": values.max()}
    return float(ends[which])


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
