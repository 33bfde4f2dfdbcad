"""Compare the reports with those of a git revision, cell by cell, with the tolerance of each metric.

Git ignores the reports of the demo, because their digits depend on the processor. The CSV files that they are compared with are
in `expected`.
"""

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from raretokens import csv_files
from raretokens.claims.verdict import Outcome
from raretokens.errors import UserError
from reproduction import tasks
from reproduction.papers.declarations import ANY, EXACT, Declarations, Tolerance
from reproduction.paths import EXPECTED, REPORTS
from reproduction.report.markdown import escaped, table
from reproduction.report.moves import (
    LINES,
    Move,
    cell_moves,
    count_moves,
    curve_moves,
    has_moved,
    line_moves,
    number_moves,
    presence_move,
    side_by_side,
)
from reproduction.report.revision import Revision

MERGE_MARKS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")
CLAIMS, MAIN, COUNTS = "claims.csv", "main.csv", ("verdicts.csv", "other-verdicts.csv")
INTERVALS = (("low", "high"), ("seeds_low", "seeds_high"), ("test_low", "test_high"))
WIDER = 2.0  # largest factor of change of an interval's width; other runs may change the pooled seed variance


def compare(revision: Revision, declared: Declarations, reports: Path = REPORTS) -> list[Move]:
    """Return every cell of a CSV file that differs, within tolerance or not, and files that exist in one version only.

    A revision without reports is represented by its `expected`.

    Raises:
        UserError: if a file does not have the format of this version, or there are no reports to compare with `expected`.
    """
    folder = committed_folder(revision, reports)
    former = set(revision.files(f"{folder}"))
    if folder == EXPECTED:
        present, changed = set(_tables(reports)), former
    else:
        present = {path.relative_to(reports).as_posix() for path in reports.rglob("*") if path.is_file()}
        changed = set(revision.changed(f"{folder}"))
    moves = [presence_move(name, "", "", True, False) for name in sorted(former - present)]
    names = {name for name in (changed & former & present) | (present - former) if name.endswith(".csv")}
    moved: set[str] = set()  # names and statements of claims
    verdicts = 0
    for name in sorted(names, key=lambda name: (name != CLAIMS, name)):
        before, now = revision.read(f"{folder / name}"), (reports / name).read_bytes()
        found = _file_moves(name, before, now, declared, moved, verdicts, reports) if before != now else []
        moves += found
        if name == CLAIMS:
            moved = _moved_claims(found, declared)
            verdicts = len({move.row for move in found if move.column in ("verdict", "extent")})
    return moves


def committed_folder(revision: Revision, reports: Path = REPORTS) -> Path:
    """Return the folder of a revision that reports are compared with: its reports, or EXPECTED if it has none."""
    return reports if revision.files(f"{reports}") or not revision.files(f"{EXPECTED}") else EXPECTED


def _tables(reports: Path) -> list[str]:
    """Return the files of the reports that EXPECTED has copies of: the CSV files that the stage `report` writes."""
    names = [path.relative_to(reports).as_posix() for path in reports.rglob("*.csv")]
    names = [name for name in names if not name.startswith(("runs/", "curves/"))]
    if not names:
        raise UserError(f"{reports}: has no tables; dvc repro makes them")
    return names


def accept() -> int:
    """Write EXPECTED anew from the reports. Return the number of its files."""
    names = _tables(REPORTS)
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name in names:
        (EXPECTED / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPORTS / name, EXPECTED / name)
    return len(names)


def _moved_claims(moves: list[Move], declared: Declarations) -> set[str]:
    """Return names and statements of the claims whose lines moved within their tolerance."""
    names = {move.row for move in moves} - {move.row for move in moves if move.out}
    return names | {declared.claims[name].statement for name in names if name in declared.claims}


def to_markdown(revision: Revision, moves: list[Move], changed: list[tuple[str, Any, Any]]) -> str:
    """Return counts, parameters that differ (`changed`), and every move. Verdicts and headline metrics come first.

    In both tables, moves out of tolerance come first.
    """
    out = sum(move.out for move in moves)
    lines = [
        f"## Reports against {revision.name} ({revision.commit[:10]})",
        "",
        f"{len(moves)} cells moved, {out} of them out of tolerance; {len(changed)} parameters differ.",
        "",
    ]
    if changed:
        rows = [(key, escaped(str(old)), escaped(str(new))) for key, old, new in changed]
        lines += [table(("parameter", "before", "now"), rows), ""]
    metrics = {one.metric for task in tasks.names() for one in tasks.describe(task).headline.values()}
    ranks = {move: _rank(move, metrics) for move in moves}
    for title, is_shown in (("Verdicts and headline metrics", ranks.get), ("Other cells", lambda move: not ranks[move])):
        own = sorted(filter(is_shown, moves), key=lambda move: (not move.out, ranks[move]))
        if own:
            head = ("report", "row", "column", "before", "now", "delta", "tolerance", "")
            lines += [f"### {title}", "", table(head, map(_cells, own)), ""]
    return "\n".join(lines)


def _rank(move: Move, metrics: Collection[str]) -> int:
    """Return the rank of a verdict or an effect among those that a reader wants first, from 1; 0 for all others.

    metrics: the headline metrics of the tasks.
    """
    if move.file == MAIN:
        return 1
    if move.file == CLAIMS and move.column in ("verdict", "extent"):
        return 2
    if move.file in COUNTS:
        return 3
    return 4 * (move.metric in metrics)


def _cells(move: Move) -> tuple[str, ...]:
    try:
        delta = f"{float(move.after) - float(move.before):+.4g}"
    except ValueError:
        delta = ""
    words = map(escaped, (move.row, move.column, move.before, move.after))
    return move.file, *words, delta, move.tolerance, "**out**" if move.out else ""


def _file_moves(
    name: str, before: bytes | None, now: bytes, declared: Declarations, moved: set[str], verdicts: int, reports: Path
) -> list[Move]:
    if before is None:
        return [presence_move(name, "", "", False, True)]
    try:
        old, new = (_text(name, part) for part in (before, now))
        if name in LINES:
            return list(line_moves(name, old, new, declared, moved, reports / "runs"))
        if name in COUNTS:
            return list(count_moves(name, old, new, verdicts))
        return list(MOVES.get(name.split("/")[0], curve_moves)(name, old, new, declared))
    except KeyError as error:
        raise UserError(f"{name}: no column {error} on both sides; make both reports with the same version") from None
    except ValueError as error:
        raise UserError(f"{name}: not written by any known version: {' '.join(str(error).split())}") from None


def _text(name: str, part: bytes) -> str:
    text = part.decode("utf-8")  # raises UnicodeDecodeError, which is a ValueError
    if marked := [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith(MERGE_MARKS)]:
        raise UserError(f"{name}: line {marked[0]} is a conflict marker of an unresolved merge")
    return text


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

    If only the intervals changed, a verdict may become decided or inconclusive, but not the opposite.
    """
    lines = list(side_by_side(before, now, ["claim"]))
    pooled = has_moved(lines)
    for (name,), old, new in lines:
        if not old or not new:
            yield presence_move(file, name, "", bool(old), bool(new))
            continue
        claim = declared.claims.get(name)
        drift = declared.metric(new["metric"]).drift_of(claim.task if claim else "") if "metric" in new else EXACT
        sides = [side for side in ("left", "right") if side in old and side in new]
        numbers = [move for side in sides for move in number_moves(file, name, side, old[side], new[side], drift)]
        yield from numbers
        if old["verdict"] != new["verdict"]:
            why = "both sides within theirs" if numbers and not any(move.out for move in numbers) else ""
            if not numbers and Outcome.INCONCLUSIVE in (old["verdict"], new["verdict"]) and _intervals_moved(old, new):
                why = f"intervals within {WIDER:g} times their width"
            yield Move(file, name, "verdict", old["verdict"], new["verdict"], why, not why)
        rest = {column: value for column, value in new.items() if column not in (*sides, "verdict")}
        within = bool(numbers) and not any(move.out for move in numbers)
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

    The points of a cloud have no identity across machines. A shift is a fraction of the range of the whole panel, because a
    nearly constant curve has no useful range. Panels of a metric have the tolerance of that metric in their task.
    """
    figure = declared.figures.get(Path(file).stem)
    drifts = {
        panel.title: declared.metric(panel.metric).drift_of(panel.task or figure.task)
        for panel in (figure.panels if figure else ())
        if panel.metric
    }
    old, new = (_points(text) for text in (before, now))
    for key in dict.fromkeys([*old, *new]):
        panel, row = key[0], " ".join(filter(None, key))
        a, b = old.get(key), new.get(key)
        if a is None or b is None or len(a) != len(b):
            counts = ["" if part is None else f"{len(part)} points" for part in (a, b)]
            yield Move(file, row, "points", *counts, "same number", True)
        elif panel in drifts:
            for was, is_now in zip(a[:, 1], b[:, 1], strict=True):
                yield from number_moves(file, row, "y", f"{was:g}", f"{is_now:g}", drifts[panel])
        else:
            span = np.ptp(np.concatenate([points for other, points in old.items() if other[0] == panel]), axis=0)
            shift, limit = _shift(a, b, span), figure.drift if figure else 0.0
            if shift:  # NaN exceeds every limit
                yield Move(file, row, "mean shift / range", "0", f"{shift:.2g}", f"{limit:g}", not shift <= limit)


def _points(text: str) -> dict[tuple[str, ...], np.ndarray]:
    """Return panel, run and group -> x and y of each point, shape (points, 2)."""
    groups = csv_files.parse_csv(text).groupby(["panel", "run", "group"], sort=False)
    return {key: points[["x", "y"]].to_numpy(dtype=float) for key, points in groups}


def _shift(old: np.ndarray, new: np.ndarray, span: np.ndarray) -> float:
    """Return the mean shift of the points in x or y, whichever is larger, as a fraction of the panel's range."""
    if not all((np.diff(points[:, 0]) > 0).all() for points in (old, new)):  # a cloud: x increases only along a curve
        old, new = np.sort(old, axis=0), np.sort(new, axis=0)
    return float((np.abs(old - new).mean(axis=0) / np.maximum(span, 1e-12)).max())


MOVES = {CLAIMS: claim_moves, "tables": table_moves, "figures": figure_moves}  # of a file or the files of a folder
