"""Moves of report files: cells of two versions side by side, and how far the numbers of each kind of file may move.

An effect compares two runs, so it may move by twice the tolerance of its metric, or by the width of its interval. What follows
from an effect, such as a verdict, may change where the numbers of its line or its claim moved within their tolerance.
Few seeds borrow the variance of other runs, so an interval may appear or disappear where another line moved. A q depends on the
other claims of its family, so it may take any value.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from raretokens import csv_files
from raretokens.claims.verdict import NO_POOL, Outcome
from reproduction.papers.declarations import ANY, EXACT, Declarations, Tolerance

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")

# File -> columns that identify a line.
LINES = {
    "methods.csv": ["task", "run", "baseline", "metric"],
    "decomposition.csv": ["run", "number"],
    "main.csv": ["conclusion", "paper"],
    "regimes.csv": ["quantity", "setting"],
}
EFFECTS = ("measured", "low", "high", "seeds_low", "seeds_high", "test_low", "test_high")
FIXED = ("statement", "paper", "place", "metric", "role", "kind", "task", "title", "objective", "seeds", "runs",
         "reported", "reported_left", "reported_right")  # fmt: skip
APPEARING = (*EFFECTS[1:], "fraction_low", "fraction_high", "p", "q")  # with an interval that pooled seeds give, or without it
ROUNDING = Tolerance(rel=0.01)  # of what follows from an effect that did not move
LOGIT_BIAS = Tolerance(rel=0.25)  # of the logit-bias baseline, which amplifies changes of the total perplexity
INTERVALS = (("low", "high"), ("seeds_low", "seeds_high"), ("test_low", "test_high"))
WIDER = 2.0  # largest factor of change of an interval's width; other runs may change the pooled seed variance
SHIFT = 0.1  # largest mean shift of a curve, as a share of its range or of its mean, whichever is larger
FIGURE = ["panel", "run", "group"]  # columns of a file of figures that name a curve or a cloud


class Move(NamedTuple):
    """A number or a line that differs between two versions of the reports."""

    file: str  # file of the reports
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool  # whether the move exceeds its tolerance
    metric: str = ""  # of a cell of tables and methods.csv


def number_moves(file: str, row: str, column: str, before: str, after: str, drift: Tolerance) -> Iterator[Move]:
    """Yield the move of a cell with one or several numbers, such as "1.31 / 1.18". Yield nothing if the cell is unchanged."""
    if before == after:
        return
    if drift == ANY:  # text, which may change but not become empty
        yield Move(file, row, column, before, after, "any", not (before and after))
        return
    old, new = ([float(part) for part in NUMBER.findall(text)] for text in (before, after))
    alike = NUMBER.sub("", before) == NUMBER.sub("", after) and len(old) == len(new)
    yield Move(file, row, column, before, after, drift.bound, not (alike and all(map(drift.allows, old, new))))


def presence_move(file: str, row: str, column: str, before: bool, now: bool) -> Move:
    """Return a move for a cell or a file that exists in only one version."""
    return Move(file, row, column, "present" if before else "", "present" if now else "", "", True)


def side_by_side(before: str, now: str, keys: list[str]) -> Iterator[tuple[Any, dict[str, str], dict[str, str]]]:
    """Yield the keys and both versions of each line that differs. A missing line is empty."""
    old, new = (csv_files.parse_csv(text) for text in (before, now))
    both = old.merge(new, how="outer", on=list(old), indicator=True)
    changed = both.loc[both._merge != "both", keys].drop_duplicates()
    order = pd.concat([old[keys], new[keys]]).drop_duplicates().merge(changed)
    versions = [{tuple(line[key] for key in keys): line for line in part.to_dict("records")} for part in (old, new)]
    for key in order.itertuples(index=False, name=None):
        yield key, *(version.get(key, {}) for version in versions)


def line_moves(
    file: str, before: str, now: str, declared: Declarations, moved: Collection[str], scores: Path
) -> Iterator[Move]:
    """Yield the moves of a file of LINES.

    Args:
        moved: names and statements of claims whose numbers moved within their tolerance.
        scores: folder of the score files.
    """
    lines = list(side_by_side(before, now, LINES[file]))
    pooled = has_moved(lines)
    for key, old, new in lines:
        if not old or not new:
            yield presence_move(file, " ".join(key), "", bool(old), bool(new))
        else:
            if "baseline" in old:
                sides = zip(("left", "right"), ("run", "baseline"), strict=True)
                old |= {side: _score(scores / old["task"] / f"{old[run]}.json", old["metric"]) for side, run in sides}
            found = cell_moves(file, " ".join(key), old, new, declared, key[0] in moved, pooled)
            yield from (move._replace(metric=new.get("metric", "")) for move in found)


def has_moved(lines: Iterable[tuple[Any, dict[str, str], dict[str, str]]]) -> bool:
    """Return whether an effect differs in one of the lines that side_by_side() yields."""
    pairs = [(old.get("measured"), new.get("measured")) for _, old, new in lines]
    return any(was and is_now and was != is_now for was, is_now in pairs)


def _score(file: Path, metric: str) -> str:
    """Return a metric of a score file as text; empty without it."""
    value = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for part in ("metrics", *metric.split(".")):
        value = value.get(part, {})
    return str(value or "")


def cell_moves(
    file: str,
    row: str,
    old: dict[str, str],
    new: dict[str, str],
    declared: Declarations,
    moved: bool = False,
    pooled: bool = False,
) -> Iterator[Move]:
    """Yield the moves of a line: of its effect, then of the cells that follow from the effect.

    Args:
        moved: whether numbers that the line follows from moved within their tolerance.
        pooled: whether the effect of any line moved.
    """
    changed = [column for column in new if column in old and old[column] != new[column]]
    both = [column for column in changed if old[column] and new[column]]
    effects = [column for column in both if column in (*EFFECTS, "mle") and file != "main.csv"]
    drift = _effect_drift(old, declared)
    level = _metric_drift(old, declared)  # of maximum likelihood's own number
    drifts = {column: level if column == "mle" else drift for column in effects}
    numbers = [move for column in effects for move in number_moves(file, row, column, old[column], new[column], drifts[column])]
    yield from numbers
    moved = (moved or bool(numbers)) and not any(move.out for move in numbers)
    for column in (column for column in changed if column not in effects):
        bound = EXACT if column in FIXED else ANY if column == "q" and column in both else ROUNDING
        (move,) = number_moves(file, row, column, old[column], new[column], bound)
        follows = moved or pooled and column in APPEARING and column not in both
        is_free = follows and column not in FIXED
        yield move._replace(tolerance="as the numbers that it follows from", out=False) if is_free else move


def _effect_drift(line: dict[str, str], declared: Declarations) -> Tolerance:
    """Return the tolerance of an effect: twice that of its metric, or the width of its interval."""
    drift = _metric_drift(line, declared)
    ends = [(line.get(low), line.get(high)) for low, high in zip(EFFECTS[1::2], EFFECTS[2::2], strict=True)]
    widths = [float(high) - float(low) for low, high in ends if low and high]
    bounds = [2 * (drift.abs or 0.0), 2 * (drift.rel or 0.0) * _level(line), *widths]
    return Tolerance(rel=2 * (drift.rel or 0.0), abs=max(bounds))


def _metric_drift(line: dict[str, str], declared: Declarations) -> Tolerance:
    claim = declared.claims.get(line.get("claim", ""))
    task = line.get("task") or (claim.task if claim else "lm")
    metric = declared.known_metric(line.get("metric") or line.get("number", ""))
    return metric.drift_of(task) if metric else LOGIT_BIAS


def _level(line: dict[str, str]) -> float:
    """Return the larger of the two numbers whose difference an effect is; 0 for ratios."""
    if line.get("kind") != "difference":
        return 0.0
    return max((abs(float(line[side])) for side in ("left", "right") if line.get(side)), default=0.0)


def count_moves(file: str, before: str, now: str, verdicts: int) -> Iterator[Move]:
    """Yield the moves of counts of verdicts. No count may move by more than the number of verdicts that moved."""
    for (paper,), old, new in side_by_side(before, now, ["paper"]):
        if not old or not new:
            yield presence_move(file, paper, "", bool(old), bool(new))
            continue
        for column in new:
            drift = EXACT if column == "claims" else Tolerance(abs=verdicts)
            yield from number_moves(file, paper, column, old.get(column, ""), new[column], drift)


def table_moves(file: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Yield the moves of a table. A changed reported number is always out of tolerance."""
    for (row, column), old, new in side_by_side(before, now, ["row", "column"]):
        if not old or not new:
            yield presence_move(file, row, column, bool(old), bool(new))
            continue
        if old["reported"] != new["reported"]:
            yield Move(file, row, f"{column} (reported)", old["reported"], new["reported"], "exact", True)
        moves = number_moves(file, row, column, old["measured"], new["measured"], _drift(file, new, declared))
        yield from (move._replace(metric=new["metric"]) for move in moves)


def _drift(file: str, line: dict[str, str], declared: Declarations) -> Tolerance:
    """Return the tolerance of a line: exact for rows without a model, any for values that the validation text selects."""
    named = (Path(file).stem.removesuffix(f"-{setting}") for setting in ("", *declared.settings))  # agg-3-32k is of agg-3
    table = next((declared.tables[name] for name in named if name in declared.tables), None)
    metric = declared.metric(line["metric"])
    if table is None:
        return metric.drift
    if any(row.data and row.title == line["row"] for row in table.rows):
        return EXACT
    if any(fact.chosen and fact.title == line["row"] for fact in table.facts):
        return ANY
    return metric.drift_of(table.task)


def claim_moves(file: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Yield the moves of claims. A verdict may change if its numbers changed within their tolerance.

    If only the intervals changed, a verdict may become decided or inconclusive, but not the opposite. An interval may appear or
    disappear where a claim on the same metric moved, if the reason of either verdict is that there is no seed variance to pool.
    """
    lines = list(side_by_side(before, now, ["claim"]))
    pooled = has_moved(lines)
    lenders = {new["metric"] for _, old, new in lines if "metric" in new and has_moved([("", old, new)])}
    for (name,), old, new in lines:
        if not old or not new:
            yield presence_move(file, name, "", bool(old), bool(new))
            continue
        claim = declared.claims.get(name)
        drift = declared.metric(new["metric"]).drift_of(claim.task if claim else "") if "metric" in new else EXACT
        sides = [side for side in ("left", "right") if side in old and side in new]
        numbers = [move for side in sides for move in number_moves(file, name, side, old[side], new[side], drift)]
        yield from numbers
        within = bool(numbers) and not any(move.out for move in numbers)
        lost = new.get("metric") in lenders and not numbers and any(NO_POOL in line.get("reason", "") for line in (old, new))
        if old["verdict"] != new["verdict"]:
            why = "both sides within theirs" if within else ""
            if not numbers and Outcome.INCONCLUSIVE in (old["verdict"], new["verdict"]):
                why = f"intervals within {WIDER:g} times their width" if _intervals_moved(old, new) else why
                why = "another line moved, whose seed variance it takes" if lost else why
            yield Move(file, name, "verdict", old["verdict"], new["verdict"], why, not why)
        within |= lost
        rest = {column: value for column, value in new.items() if column not in (*sides, "verdict")}
        yield from cell_moves(file, name, old, rest, declared, within, pooled)


def _intervals_moved(old: dict[str, str], new: dict[str, str]) -> bool:
    """Whether an interval changed, but none appeared, disappeared, or changed its width by more than the factor WIDER."""
    pairs = [[(line.get(low, ""), line.get(high, "")) for line in (old, new)] for low, high in INTERVALS]
    moved = [(before, after) for before, after in pairs if before != after]
    if not moved or any("" in (*before, *after) for before, after in moved):
        return False
    widths = [[float(high) - float(low) for low, high in pair] for pair in moved]
    return all(was / WIDER <= now <= was * WIDER for was, now in widths)


def figure_moves(file: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Yield the moves of figures. Curves are compared point by point, and point clouds by their sorted coordinates.

    A shift is a fraction of the range of the whole panel, because a nearly constant curve has no useful range. Panels of a metric
    have the tolerance of that metric in their task.
    """
    figure = declared.figures.get(Path(file).stem)
    drifts = {
        panel.title: declared.metric(panel.metric).drift_of(panel.task or figure.task)
        for panel in (figure.panels if figure else ())
        if panel.metric
    }
    old, new = (
        {key: points[["x", "y"]].astype(float) for key, points in _by_name(csv_files.parse_csv(text), FIGURE).items()}
        for text in (before, now)
    )
    moves, pairs = _pairs(file, old, new)
    yield from moves
    for (panel, *_), row, a, b in pairs:
        if panel in drifts:
            for was, is_now in zip(a.y, b.y, strict=True):
                yield from number_moves(file, row, "y", f"{was:g}", f"{is_now:g}", drifts[panel])
            continue
        span = np.ptp(np.concatenate([points for other, points in old.items() if other[0] == panel]), axis=0)
        was, is_now = _in_order(a.to_numpy(), b.to_numpy())
        shift = (np.abs(was - is_now).mean(axis=0) / np.maximum(span, 1e-12)).max()
        if shift:
            yield _shift_move(file, row, "mean shift / range", shift, figure.drift if figure else 0.0)


def curve_moves(file: str, before: str, now: str, declared: Declarations) -> Iterator[Move]:
    """Yield the mean shift of each curve, point cloud or sample of replicates in a file of curves, plots or runs.

    Replicates have the tolerance of their metric.
    """
    old, new = (csv_files.parse_csv(text) if text else pd.DataFrame() for text in (before, now))
    if list(old) != list(new):
        yield Move(file, "", "columns", ",".join(old), ",".join(new), "exact", True)
        return
    names = [name for name in ("run", "family", "series", "group") if name in old]
    moves, pairs = _pairs(file, _by_name(old, names), _by_name(new, names))
    yield from moves
    for _, row, *versions in pairs:
        a, b = _in_order(*(points.replace("", "nan").to_numpy(dtype=float) for points in versions))
        for column, was, is_now in zip(versions[0], a.T, b.T, strict=True):
            metric = declared.known_metric(column) if file.endswith(".bootstrap.csv") else None
            if np.array_equal(was, is_now, equal_nan=True):
                continue
            if (np.isnan(was) != np.isnan(is_now)).any():
                yield Move(file, row, column, "", "", "numbers in the same places", True)
            elif metric:
                means = (f"{np.nanmean(part):g}" for part in (was, is_now))
                yield from number_moves(file, row, f"mean {column}", *means, metric.drift_of(file.split("/")[1]))
            else:
                size = max(np.nanmax(was) - np.nanmin(was), np.nanmean(np.abs(was)), 1e-12)
                yield _shift_move(file, row, f"mean shift of {column}", np.nanmean(np.abs(was - is_now)) / size, SHIFT)


Names = tuple[str, ...]  # of a curve or a cloud, such as its panel, run and group
Curves = dict[Names, pd.DataFrame]  # names -> points
Pair = tuple[Names, str, pd.DataFrame, pd.DataFrame]  # names, row of the moves, points before and now


def _by_name(rows: pd.DataFrame, names: list[str]) -> Curves:
    """Return the curves and clouds of a file. The columns `names` name the curve or the cloud of a point."""
    return {key: points.drop(columns=names) for key, points in rows.groupby(names, sort=False)} if names else {(): rows}


def _pairs(file: str, old: Curves, new: Curves) -> tuple[list[Move], list[Pair]]:
    """Return a move for each curve or cloud whose number of points differs, and a pair for each other one."""
    moves, pairs = [], []
    for key in dict.fromkeys([*old, *new]):
        row, a, b = " ".join(filter(None, key)), old.get(key), new.get(key)
        if a is None or b is None or len(a) != len(b):
            counts = ["" if points is None else f"{len(points)} points" for points in (a, b)]
            moves.append(Move(file, row, "points", *counts, "same number", True))
        else:
            pairs.append((key, row, a, b))
    return moves, pairs


def _in_order(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two versions of a curve as they are, and of a cloud sorted: its points have no identity across machines."""
    is_curve = all((np.diff(points[:, 0]) > 0).all() for points in (old, new))  # x increases only along a curve
    return (old, new) if is_curve else (np.sort(old, axis=0), np.sort(new, axis=0))


def _shift_move(file: str, row: str, column: str, shift: float, limit: float) -> Move:
    """Return the move of a curve or a cloud by a mean shift. NaN exceeds every limit."""
    return Move(file, row, column, "0", f"{shift:.2g}", f"{limit:g}", not shift <= limit)
