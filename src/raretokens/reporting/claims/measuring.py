"""The number of a claim's side: of the score files, of the curves, or counted among the listed neighbours."""

import pandas as pd

from raretokens.reporting.declarations.claim import Claim, Side
from raretokens.reporting.scored import Scores, Value

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
