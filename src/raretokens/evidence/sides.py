"""The number of one side of a comparison: from score files, from training curves, or counted among listed neighbours."""

import pandas as pd

from raretokens.evidence.scores import Scores, Value
from raretokens.papers.claim import Side

NEIGHBOURS = "neighbours.rare"  # a share that is counted from the listed neighbours


def run_of(side: Side, scores: Scores) -> str | None:
    """The first of the side's runs that is on the run sheet."""
    return scores.choose(side.runs, data=side.data)


def value_of(side: Side, scores: Scores, thaw: float | None) -> Value | None:
    """The side's metric over seeds. thaw: the step that `at: until` means for a run without that option."""
    run = run_of(side, scores)
    if run is None:
        return None
    if side.at is not None:
        return scores.over_seeds(run, lambda name: _on_curve(side, scores, name, thaw))
    if side.metric == NEIGHBOURS:
        return scores.over_seeds(run, lambda name: _rare_neighbours(scores.read(name) or {}))
    return scores.value(run, side.metric)


def _rare_neighbours(score: dict) -> float | None:
    """Share of the rare group among the nearest neighbours of all queries; None without neighbours."""
    groups = [group for _, listed in score.get("neighbours", []) for _, _, group in listed]
    return groups.count("rare") / len(groups) if groups else None


def _on_curve(side: Side, scores: Scores, name: str, thaw: float | None) -> float | None:
    """Value of a run's curve at a moment of training; None where the run has no such curve or moment.

    A share is of the last step (the nearest point counts); `until` is the run's option of that name (the last point that is not
    after it).
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
    """x and y of series.group, or of all groups of a series."""
    series, _, group = metric.partition(".")
    own = (points.series == series) & ((points.group == group) | (not group))
    return points.loc[own, ["x", "y"]].astype(float)
