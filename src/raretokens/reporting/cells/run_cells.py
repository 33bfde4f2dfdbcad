"""From a table's declaration and the scores to cells, each with the printed number, ours, and how they compare."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.cells.fact_cells import fact_cells
from raretokens.reporting.cells.neighbour_cells import neighbour_cells
from raretokens.reporting.declarations.printed import Printed, PrintedTable
from raretokens.reporting.declarations.schema import EXACT, Column, Declarations, Metric, Row, Table
from raretokens.reporting.scored import Scores, Value


def of_table(
    declared: Declarations, table: Table, scores: dict[str, Scores], folder: Path, corpora: dict[str, str]
) -> list[Cell]:
    """All cells of a table, row by row; folder holds the printed numbers, corpora the scale's text of each task."""
    if table.facts:
        return list(fact_cells(declared, table, scores, PrintedTable(folder, table.printed), corpora))
    return cells(declared, table, scores[table.task], folder)


def cells(declared: Declarations, table: Table, scores: Scores, folder: Path) -> list[Cell]:
    """All cells of a table of runs."""
    printed = PrintedTable(folder, table.printed)
    if table.neighbours:
        return list(neighbour_cells(table, scores, printed))
    found = []
    for row in rows(declared, table, scores):
        for column in table.columns:
            stem = scores.choose(row.names(column), data=row.data)
            value = scores.value(stem, column.metric) if stem else None
            print_cell = printed.get(row.title, column.column, column.group)
            reason = "" if value else _reason(row, column, stem, scores)
            if not _expected(row, column, print_cell, stem, scores, printed):
                reason = ""
            found.append(_cell(row, column, declared.metric(column.metric), print_cell, value, reason))
            if value and column.interval and len(value.runs) == 1:
                found[-1] = _with_interval(found[-1], scores.value(value.runs[0], column.interval), declared)
    return [cell for cell in found if cell.paper or cell.ours or cell.status == "not run"]


def rows(declared: Declarations, table: Table, scores: Scores) -> list[Row]:
    """The paper's rows, then, where the table asks for them, the runs of its task and kind that no paper's item names."""
    if not table.also:
        return list(table.rows)
    others: dict[str, Row] = {}
    for stem in scores.stems():
        if stem not in declared.runs(table.task) and _comparable(table, scores.lines[stem]):
            row = _other(table, stem, scores.lines[stem])
            others[row.title] = row
    return [*table.rows, *others.values()]


def _comparable(table: Table, line: Any) -> bool:
    """Perplexities of words and of pieces are of different things, BLEU of two directions too."""
    if table.task == "lm":
        return getattr(line, "tokens", "lm") == table.tokens
    return getattr(line, "reverse", False) in {column.reverse for column in table.columns}


def _other(table: Table, stem: str, line: Any) -> Row:
    """The row of a run that the table does not name: in the columns of its own size or direction, so once."""
    sides = [
        column.side for column in table.columns if column.side and column.reverse == getattr(line, "reverse", False)
    ]
    if sides:
        return Row(title=stem, runs={side: [stem] for side in sides})
    sizes = list(dict.fromkeys(column.size for column in table.columns if column.size))
    title = next((stem.removeprefix(f"{size}-") for size in sizes if stem.startswith(f"{size}-")), stem)
    if title != stem:
        return Row(title=title, runs=["{size}-" + title])
    return Row(title=title, runs=[stem], size=line.size if line.size in sizes else (sizes or [None])[0])


def _expected(
    row: Row, column: Column, paper: Printed | None, stem: str | None, scores: Scores, printed: PrintedTable
) -> bool:
    """Whether a missing number is worth a word: one that the paper has, or any of a run that was not scored yet."""
    if paper and paper.text:
        return True
    if row.title in printed.rows or stem not in scores.lines:
        return False
    return column.column is not None or scores.read(stem) is None


def _with_interval(cell: Cell, half: Value | None, declared: Declarations) -> Cell:
    return replace(cell, spread=shown(half.mean, declared.metric(cell.metric))) if half else cell


def _cell(row: Row, column: Column, metric: Metric, printed: Printed | None, value: Value | None, reason: str) -> Cell:
    paper = printed.value if printed else None
    status = _status(row, metric, printed, value, reason)
    delta = value.mean - paper if value and paper is not None else None
    return Cell(
        row=row.title,
        column=column.title,
        metric=column.metric,
        paper=printed.text if printed else "",
        ours=shown(value.mean, metric) if value else "",
        spread=shown(value.spread, metric) if value and value.spread is not None else "",
        delta="" if delta is None else f"{delta:+.{metric.digits}f}",
        runs=" ".join(value.runs) if value else "",
        status=status,
        reason=reason if status == "not run" else "",
        note=printed.note if printed else "",
    )


def _status(row: Row, metric: Metric, printed: Printed | None, value: Value | None, reason: str) -> str:
    if value is None:
        return "" if not reason else "quoted" if printed and printed.quoted else "not run"
    if printed is None or printed.value is None:
        return "ours only"
    match = EXACT if row.data else metric.match
    return "match" if match.allows(printed.value, value.mean) else "differs"


def _reason(row: Row, column: Column, stem: str | None, scores: Scores) -> str:
    if stem is not None:
        return f"{stem} has no {column.metric}" if scores.read(stem) else f"{stem} has no scores yet"
    names = " or ".join(row.names(column))
    if row.data and names:
        return f"{names} has no scores yet"
    return row.absent or column.absent or (f"no run named {names} on the run sheet" if names else "no run is declared")


def shown(value: float | None, metric: Metric) -> str:
    return "" if value is None else f"{value:.{metric.digits}f}"
