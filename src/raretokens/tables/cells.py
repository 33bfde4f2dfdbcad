"""From a table's declaration and the scores to cells, each with the printed number, ours, and how they compare."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from raretokens.tables.declarations import Column, Declarations, Metric, Row, Table
from raretokens.tables.printed import Printed, PrintedTable
from raretokens.tables.scored import Scores, Value


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    metric: str
    paper: str
    ours: str
    spread: str
    delta: str
    runs: str
    status: str  # match, differs, not run, quoted, ours only
    note: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def cells(declared: Declarations, table: Table, scores: Scores, folder: Path) -> list[Cell]:
    """All cells of a table, row by row; folder holds the printed numbers."""
    printed = PrintedTable(folder, table.printed)
    if table.neighbours:
        return list(_neighbour_cells(table, scores, printed))
    found = []
    for row in rows(table, scores):
        for column in table.columns:
            stem = scores.choose(row.runs, column.size, row.data)
            value = scores.value(stem, column.metric) if stem else None
            print_cell = printed.get(row.title, column.column, column.group)
            found.append(_cell(row, column, declared.metric(column.metric), print_cell, value, stem))
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
            others[title] = Row(title=title, runs=["{size}-" + title, title] if title != stem else [stem])
    return [*table.rows, *others.values()]


def _cell(
    row: Row, column: Column, metric: Metric, printed: Printed | None, value: Value | None, stem: str | None
) -> Cell:
    paper = printed.value if printed else None
    status, note = _status(row, metric, printed, value, stem)
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
        note=note,
    )


def _status(
    row: Row, metric: Metric, printed: Printed | None, value: Value | None, stem: str | None
) -> tuple[str, str]:
    remark = printed.note if printed else ""
    if value is None:
        if row.quoted and printed and printed.text:
            return "quoted", remark
        if printed is None or not printed.text:
            return "", remark
        reason = f"{stem} has no such score" if stem else f"no run named {' or '.join(row.runs)} on the run sheet"
        return "not run", reason
    if printed is None or printed.value is None:
        return "ours only", remark
    return ("match" if metric.match.allows(printed.value, value.mean) else "differs"), remark


def shown(value: float | None, metric: Metric) -> str:
    return "" if value is None else f"{value:.{metric.digits}f}"


def _neighbour_cells(table: Table, scores: Scores, printed: PrintedTable) -> Iterator[Cell]:
    queries = list(dict.fromkeys(column for _, column, _ in printed.cells))
    stems = [(row, scores.choose(row.runs)) for row in table.rows]
    near = {row.title: dict((scores.read(stem) or {}).get("neighbours", [])) if stem else {} for row, stem in stems}
    asked = [query for found in near.values() for query in found]
    for query in dict.fromkeys([*queries, *asked]):
        for row, stem in stems:
            listed = {cell.text for key, cell in printed.cells.items() if key[:2] == (row.title, query)}
            found = near[row.title].get(query) or []
            for rank in range(1, table.neighbours + 1):
                paper = printed.cells.get((row.title, query, f"rank{rank}"))
                piece, _, group = found[rank - 1] if rank <= len(found) else ("", 0.0, "")
                word = piece.removeprefix("▁")
                status = "not run" if not word else "match" if word in listed else "differs" if paper else "ours only"
                note = group if word else "the query is not asked for, or is no single piece of this vocabulary"
                yield Cell(
                    f"{query}, {row.title}",
                    f"rank {rank}",
                    "neighbours",
                    paper.text if paper else "",
                    word,
                    "",
                    "",
                    stem or "",
                    status,
                    note,
                )
