"""Cells of a table of runs: a row of runs by a column with a metric."""

from dataclasses import dataclass

from raretokens.reporting.cells.cell import Cell, Status
from raretokens.reporting.cells.run_rows import run_rows
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.declarations.metric import EXACT, Metric
from raretokens.reporting.declarations.paper_table import Table
from raretokens.reporting.declarations.printed import NOTHING, Printed, PrintedTable, is_quoted
from raretokens.reporting.declarations.row import Column, RunRow
from raretokens.reporting.scored import Scores, Value


@dataclass(frozen=True)
class Crossing:
    """Where a row and a column meet: what is printed there, and what we have."""

    row: RunRow
    column: Column
    metric: Metric
    printed: Printed
    run: str | None
    value: Value | None


def run_cells(declared: Declarations, table: Table, scores: Scores, printed: PrintedTable) -> list[Cell]:
    """Row by row; a place without a number, a printed one and a reason has no cell."""
    rows = run_rows(declared, table, scores)
    crossings = [_crossing(declared, row, column, scores, printed) for row in rows for column in table.columns]
    cells = [_cell(crossing, scores, printed) for crossing in crossings]
    return [cell for cell in cells if cell.paper or cell.ours or cell.status == "not run"]


def _crossing(declared: Declarations, row: RunRow, column: Column, scores: Scores, printed: PrintedTable) -> Crossing:
    run = scores.choose(row.names(column), data=row.data)
    value = scores.value(run, column.metric) if run else None
    paper = printed.get(row.title, column.column, column.group) or NOTHING
    return Crossing(row, column, declared.metric(column.metric), paper, run, value)


def _cell(crossing: Crossing, scores: Scores, printed: PrintedTable) -> Cell:
    value, metric, paper = crossing.value, crossing.metric, crossing.printed
    reason = "" if value or not _is_expected(crossing, scores, printed) else _reason(crossing, scores)
    status = _status(crossing, reason)
    return Cell(
        row=crossing.row.title,
        column=crossing.column.title,
        metric=crossing.column.metric,
        paper=paper.text,
        ours=_shown(value.mean if value else None, metric),
        spread=_shown(_spread(crossing, scores), metric),
        delta=f"{value.mean - paper.value:+.{metric.digits}f}" if value and paper.value is not None else "",
        runs=" ".join(value.runs) if value else "",
        status=status,
        reason=reason if status == "not run" else "",
        note=paper.note,
    )


def _is_expected(crossing: Crossing, scores: Scores, printed: PrintedTable) -> bool:
    """Whether a missing number is worth a word: one that the paper has, or any of a run that was not scored yet."""
    if crossing.printed.text:
        return True
    if crossing.row.title in printed.rows or crossing.run not in scores.lines:
        return False
    return crossing.column.column is not None or scores.read(crossing.run) is None


def _status(crossing: Crossing, reason: str) -> Status:
    value, printed = crossing.value, crossing.printed
    if value is None:
        return "" if not reason else "quoted" if is_quoted(printed.note) else "not run"
    if printed.value is None:
        return "ours only"
    match = EXACT if crossing.row.data else crossing.metric.match
    return "match" if match.allows(printed.value, value.mean) else "differs"


def _reason(crossing: Crossing, scores: Scores) -> str:
    """Why there is no number."""
    row, column, run = crossing.row, crossing.column, crossing.run
    if run is not None:
        return f"{run} has no {column.metric}" if scores.read(run) else f"{run} has no scores yet"
    names = " or ".join(row.names(column))
    if row.data and names:
        return f"{names} has no scores yet"
    return row.absent or column.absent or (f"no run named {names} on the run sheet" if names else "no run is declared")


def _spread(crossing: Crossing, scores: Scores) -> float | None:
    """Over seeds; with one seed the column's interval, where it has one."""
    value, interval = crossing.value, crossing.column.interval
    if value and interval and len(value.runs) == 1:
        half = scores.value(value.runs[0], interval)
        return half.mean if half else None
    return value.spread if value else None


def _shown(number: float | None, metric: Metric) -> str:
    return "" if number is None else f"{number:.{metric.digits}f}"
