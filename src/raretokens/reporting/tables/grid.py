"""A table as the paper lays it out."""

from dataclasses import dataclass

from raretokens.papers.table import Table
from raretokens.reporting.cells.cell import Cell


@dataclass(frozen=True)
class Grid:
    columns: list[str]
    rows: dict[str, list[Cell | None]]  # title, and what is said beside it -> a cell or None for each column

    @classmethod
    def of(cls, table: Table, cells: list[Cell]) -> "Grid":
        """Columns in the order of the declaration, then as they come."""
        used = dict.fromkeys(cell.column for cell in cells)
        declared = [part.title for part in (*table.columns, *table.subjects)]
        columns = list(dict.fromkeys([*(title for title in declared if title in used), *used]))
        by_place = {(cell.row, cell.column): cell for cell in cells}
        rows = dict.fromkeys(cell.row for cell in cells)
        labels = {row.title: row.label for row in table.rows}
        return cls(columns, {labels.get(row, row): [by_place.get((row, column)) for column in columns] for row in rows})
