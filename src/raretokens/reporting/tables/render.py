"""Cells as CSV, and as the paper's grid in Markdown: ours (paper)."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.declarations.schema import Table

HEADER = ["row", "column", "metric", "paper", "ours", "spread", "delta", "runs", "status", "reason", "note"]
LEGEND = (
    "Ours (printed). ± is half the range over seeds; of sacreBLEU with one seed, half its bootstrap 95 % interval. "
    "**Bold**: within the printed number's tolerance. † quoted in print from elsewhere. ‡ doubtful in print. — not run."
)
NEIGHBOURS = (
    "Ours (printed), nearest first. **Bold**: among the printed neighbours of the same query and run. "
    "*Italic*: of the rare group. In print * marks a rare word or a word of the other language. — not run."
)
FACTS = "Ours (printed). **Bold**: as printed (32k stands for 32,768). ≠ not as printed. — not run."


@dataclass(frozen=True)
class Grid:
    """A table as the paper lays it out: row title -> a cell or None for each column."""

    columns: list[str]
    rows: dict[str, list[Cell | None]]

    @classmethod
    def of(cls, table: Table, cells: list[Cell]) -> "Grid":
        """Columns in the order of the declaration, then as they come."""
        used = dict.fromkeys(cell.column for cell in cells)
        declared = [part.title for part in (*table.columns, *table.subjects)]
        columns = list(dict.fromkeys([*(title for title in declared if title in used), *used]))
        by_place = {(cell.row, cell.column): cell for cell in cells}
        rows = dict.fromkeys(cell.row for cell in cells)
        return cls(columns, {row: [by_place.get((row, column)) for column in columns] for row in rows})


def to_csv(cells: list[Cell]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.as_dict() for cell in cells)
    return out.getvalue()


def to_markdown(table: Table, cells: list[Cell]) -> str:
    """Title, grid, legend and remarks."""
    grid = Grid.of(table, cells)
    lines = [f"**{table.paper} {table.place}: {table.title}**", ""]
    lines += ["| | " + " | ".join(grid.columns) + " |", "|---|" + "---|" * len(grid.columns)]
    for row, found in grid.rows.items():
        lines.append(f"| {escaped(row)} | " + " | ".join(map(_shown, found)) + " |")
    legend = NEIGHBOURS if table.neighbours else FACTS if table.facts else LEGEND
    return "\n".join([*lines, "", legend, *_listed(remarks(table, cells)), ""])


def escaped(text: str) -> str:
    """Text that stands in a Markdown table as it is."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    differs = "≠ " if cell.metric == "facts" and cell.status == "differs" else ""
    mark = "†" if cell.quoted else " ‡" if cell.doubtful else ""
    paper = f"({differs}{escaped(cell.paper)}{mark})" if cell.paper else ""
    if not cell.ours:
        return f"— {paper}".strip() if paper or cell.status == "not run" else ""
    ours = f"{cell.ours} ± {cell.spread}" if cell.spread else escaped(cell.ours)
    if is_rare(cell):
        ours = f"*{ours}*"
    return f"**{ours}** {paper}".strip() if cell.status == "match" else f"{ours} {paper}".strip()


def is_rare(cell: Cell) -> bool:
    return cell.metric == "neighbours" and cell.note == "rare"


def remarks(table: Table, cells: list[Cell]) -> dict[str, list[str]]:
    """Why there is no number, and remarks on printed numbers; the same words once, and the lines that they hold for.

    A line is a row; for the reasons of a table of facts, where a run is a column, it is a column.
    """
    found: list[tuple[str, str]] = []
    if table.facts:
        for column, inside in _lines(cells, "column"):
            found += _reasons(column, inside, "row")
    for row, inside in _lines(cells, "row"):
        found += [] if table.facts else _reasons(row, inside, "column")
        found += _notes(row, inside)
    places: dict[str, list[str]] = defaultdict(list)
    for place, text in found:
        places[text].append(place)
    return places


def _listed(places: dict[str, list[str]]) -> list[str]:
    return ["", *(f"* {escaped('; '.join(where))}: {text}" for text, where in places.items())] if places else []


def _reasons(line: str, inside: list[Cell], across: str) -> Iterator[tuple[str, str]]:
    missing = [cell for cell in inside if cell.reason]
    for reason in dict.fromkeys(cell.reason for cell in missing):
        some = [getattr(cell, across) for cell in missing if cell.reason == reason]
        yield (line if len(some) == len(missing) else f"{line}, {', '.join(some)}"), reason


def _notes(row: str, inside: list[Cell]) -> Iterator[tuple[str, str]]:
    printed = [cell for cell in inside if cell.paper and cell.metric != "neighbours"]
    for note in dict.fromkeys(cell.note for cell in printed if _says_more(cell)):
        some = [cell.column for cell in printed if cell.note == note]
        yield (row if len(some) == len(printed) > 1 else f"{row}, {', '.join(some)}"), note


def _lines(cells: list[Cell], key: str) -> Iterator[tuple[str, list[Cell]]]:
    for line in dict.fromkeys(getattr(cell, key) for cell in cells):
        yield line, [cell for cell in cells if getattr(cell, key) == line]


def _says_more(cell: Cell) -> bool:
    """A note that is not only the legend's †."""
    return bool(cell.note) and (not cell.quoted or ";" in cell.note)
