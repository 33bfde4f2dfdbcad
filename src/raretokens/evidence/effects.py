"""The number of one side of a comparison, and the effect between two sides.

Effects are averaged on an additive scale, which is the logarithm for a ratio and the identity for a difference or a value.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from raretokens.evidence.scores import Scores, Value
from raretokens.papers.claim import Claim, EffectKind, Side
from raretokens.papers.declarations import Declarations

NEIGHBOURS = "neighbours.rare"  # a share that is computed from the nearest neighbours listed in a score file


def effect(kind: EffectKind, left: float, right: float | None) -> float:
    """Return left / right, left - right, or left alone."""
    if right is None:
        return left
    if kind == "difference":
        return left - right
    if right == 0:  # 0 / 0 counts as no effect
        return math.copysign(math.inf, left) if left else 1.0
    return left / right


def combined_effect(kind: EffectKind, numbers: list[Any]) -> Any:
    """Return the effect of a number (or an array) for each side, combined with the effect of the control if there is one.

    Args:
        kind: ratio, difference or value.
        numbers: left and right (a value has left alone), then the sides of the control in the same order.
    """
    sides = 1 if kind == "value" else 2
    pairs = [numbers[start : start + sides] for start in range(0, len(numbers), sides)]
    own, *control = (_effect_of_pair(kind, *pair) for pair in pairs)
    if not control:
        return own
    return own / control[0] if kind == "ratio" else own - control[0]


def _effect_of_pair(kind: EffectKind, left: Any, right: Any = None) -> Any:
    if right is not None and (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)):
        return left / right if kind == "ratio" else left - right
    return effect(kind, left, right)


def to_additive(kind: EffectKind, effects: Any) -> Any:
    """Transform effects to the additive scale: the logarithm of a ratio, other effects unchanged."""
    return np.log(effects) if kind == "ratio" else np.asarray(effects)


def from_additive(kind: EffectKind, effects: Any) -> Any:
    """Transform effects back from the additive scale."""
    return np.exp(effects) if kind == "ratio" else np.asarray(effects)


def reported_effect(claim: Claim, declared: Declarations) -> float | None:
    """Return the effect that the paper reports, or None."""
    if claim.unreported:
        return None
    cells = [side.reported for side in claim.all_sides.values()]
    if None in cells:  # the paper does not report the control
        cells = [side.reported for side in claim.sides.values()]
    numbers = [declared.reported(file).mean(row, column, group) for file, row, column, group in cells]
    return None if None in numbers else combined_effect(claim.effect, numbers)


def run_of(side: Side, scores: Scores) -> str | None:
    """Return the first of the side's runs that is on the run sheet."""
    return scores.choose(side.runs, data=side.data)


def value_of(side: Side, scores: Scores, thaw: float | None) -> Value | None:
    """Return the side's metric over seeds.

    Args:
        side: a side of a comparison.
        scores: scores of the task.
        thaw: the step that `at: until` means for a run without that option.
    """
    run = run_of(side, scores)
    if run is None:
        return None
    if side.at is not None:
        return scores.over_seeds(run, lambda name: _on_curve(side, scores, name, thaw))
    if side.metric == NEIGHBOURS:
        return scores.over_seeds(run, lambda name: _rare_neighbours(scores.read(name) or {}))
    return scores.value(run, side.metric)


def _rare_neighbours(score: dict) -> float | None:
    """Return the share of the rare group among the nearest neighbours of all queries, or None without neighbours."""
    groups = [group for _, listed in score.get("neighbours", []) for _, _, group in listed]
    return groups.count("rare") / len(groups) if groups else None


def _on_curve(side: Side, scores: Scores, name: str, thaw: float | None) -> float | None:
    """Return the value of a run's curve at a moment of training, or None if the run has no such curve or moment.

    A number is a fraction of the last step, and the nearest point counts. `until` is the run's option of that name, and the
    last point that is not after it counts.
    """
    curve = _curve(side.metric, scores.points(name))
    moment = (scores.option(name, "until") or thaw) if side.at == "until" else side.at
    if curve.empty or moment is None:
        return None
    if isinstance(moment, str):
        ends = {"first": curve.y.iloc[0], "last": curve.y.iloc[-1], "lowest": curve.y.min(), "highest": curve.y.max()}
        return float(ends[moment])
    if side.at == "until":
        return float(curve.y[curve.x <= moment].iloc[-1])
    return float(curve.y.iloc[(curve.x - moment * curve.x.iloc[-1]).abs().argmin()])


def _curve(metric: str, points: pd.DataFrame) -> pd.DataFrame:
    """Return x and y of `series.group`, or of all groups of `series`."""
    series, _, group = metric.partition(".")
    own = (points.series == series) & ((points.group == group) | (not group))
    return points.loc[own, ["x", "y"]].astype(float)
