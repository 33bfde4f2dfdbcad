"""Tables on the page."""

from collections import Counter
from typing import Any

from raretokens.papers.declarations import Declarations
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.tables.grid import Grid
from raretokens.reporting.tables.remarks import remarks
from raretokens.reporting.tables.table_markdown import ADDED, added_rows


def section(name: str, declared: Declarations, cells: list[Cell]) -> dict[str, Any]:
    table = declared.tables[name]
    grid = Grid.of(table, cells)
    return {
        "id": name,
        "title": table.title,
        "paper": table.paper,
        "place": table.place,
        "task": table.task,
        "kind": "neighbours" if table.neighbours else "facts" if table.facts else "runs",
        "of_text": table.is_of_text,
        "token": table.token,
        "columns": _columns(grid, declared, cells),
        "rows": grid.rows,
        "run": sum(any(cell and cell.ours for cell in row) for row in grid.rows.values()),
        "statuses": Counter(cell.status for cell in cells if cell.status),
        "remarks": remarks(table, cells) | ({ADDED: added} if (added := added_rows(table, grid)) else {}),
    }


def _columns(grid: Grid, declared: Declarations, cells: list[Cell]) -> list[dict[str, Any]]:
    paths: dict[str, str] = {}
    for cell in cells:
        paths.setdefault(cell.column, cell.metric)
    return [
        {"title": title, "path": paths[title], "metric": declared.known_metric(paths[title])} for title in grid.columns
    ]


def families(sections: list[dict[str, Any]]) -> dict[str, str]:
    """First part of a metric path -> the title that most of its columns have."""
    titles: dict[str, Counter[str]] = {}
    for column in (column for section in sections for column in section["columns"]):
        if column["metric"]:
            titles.setdefault(column["path"].split(".")[0], Counter())[column["metric"].title] += 1
    return {family: counts.most_common(1)[0][0] for family, counts in titles.items()}
