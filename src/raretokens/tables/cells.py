"""From a table's declaration and the scores to cells, each with the printed number, ours, and how they compare."""

from pathlib import Path

from raretokens.tables.cell import Cell
from raretokens.tables.declarations import EXACT, Column, Declarations, Metric, Row, Table
from raretokens.tables.neighbours import neighbour_cells
from raretokens.tables.printed import Printed, PrintedTable
from raretokens.tables.scored import Scores, Value, filled


def cells(declared: Declarations, table: Table, scores: Scores, folder: Path) -> list[Cell]:
    """All cells of a table, row by row; folder holds the printed numbers."""
    printed = PrintedTable(folder, table.printed)
    if table.neighbours:
        return list(neighbour_cells(table, scores, printed))
    found = []
    for row in rows(table, scores):
        for column in (column for column in table.columns if not row.size or column.size in (None, row.size)):
            stem = scores.choose(row.runs, column.size, row.data)
            value = scores.value(stem, column.metric) if stem else None
            print_cell = printed.get(row.title, column.column, column.group)
            metric = declared.metric(column.metric)
            reason = "" if value else _reason(row, column, stem, scores)
            expected = bool(print_cell and print_cell.text) or row.title not in printed.rows and stem in scores.lines
            found.append(_cell(row, column, metric, print_cell, value, reason if expected else ""))
    return [cell for cell in found if cell.paper or cell.ours or cell.status == "not run"]


def rows(table: Table, scores: Scores) -> list[Row]:
    """The paper's rows, then every other run of the task where the table asks for them."""
    if not table.also:
        return list(table.rows)
    sizes = list(dict.fromkeys(column.size for column in table.columns if column.size))
    taken = {scores.choose(row.runs, size, row.data) for row in table.rows for size in (sizes or [None])}
    others: dict[str, Row] = {}
    for stem in scores.stems():
        if stem not in taken:
            title = next((stem.removeprefix(f"{size}-") for size in sizes if stem.startswith(f"{size}-")), stem)
            if title != stem:
                others[title] = Row(title=title, runs=["{size}-" + title])
            else:  # in the columns of its own size, so that the number stands once
                size = scores.lines[stem].size
                others[title] = Row(title=title, runs=[stem], size=size if size in sizes else (sizes or [None])[0])
    return [*table.rows, *others.values()]


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
        return "" if not reason else "quoted" if row.quoted else "not run"
    if printed is None or printed.value is None:
        return "ours only"
    match = EXACT if row.data else metric.match
    return "match" if match.allows(printed.value, value.mean) else "differs"


def _reason(row: Row, column: Column, stem: str | None, scores: Scores) -> str:
    names = " or ".join(filled(row.runs, column.size))
    if row.data:
        return f"{names} has no scores yet" if stem is None else f"{stem} has no {column.metric}"
    if stem is None:
        return f"no run named {names} on the run sheet"
    return f"{stem} has no {column.metric}" if scores.read(stem) else f"{stem} has no scores yet"


def shown(value: float | None, metric: Metric) -> str:
    return "" if value is None else f"{value:.{metric.digits}f}"
