"""The printed numbers: data/paper/<table>.csv, one line a cell."""

import csv
from dataclasses import dataclass
from pathlib import Path

from raretokens.errors import UserError


@dataclass(frozen=True)
class Printed:
    text: str  # as printed; may be a word (nearest neighbours) or empty (a dash)
    note: str

    @property
    def quoted(self) -> bool:
        """Taken from another paper."""
        return self.note.startswith("quoted")

    @property
    def value(self) -> float | None:
        try:
            return float(self.text)
        except ValueError:
            return None


class PrintedTable:
    """Cells of one printed table by (row, column, group)."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.csv"
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file; a table or a claim names it")
        with open(self.path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.cells = {(r["row"], r["column"], r["group"]): Printed(r["value"], r["note"]) for r in rows}
        self.rows = list(dict.fromkeys(row for row, _, _ in self.cells))

    def get(self, row: str, column: str | None, group: str | None) -> Printed | None:
        """The cell, or None where the paper has no such column; an unknown row is an empty cell."""
        if column is None:
            return None
        if not any(key[1:] == (column, group) for key in self.cells):
            known = sorted({" / ".join(key[1:]) for key in self.cells})
            raise UserError(f"{self.path}: no column {column} / {group}; it has {', '.join(known)}")
        return self.cells.get((row, column, group))

    def cell(self, row: str, column: str, group: str) -> Printed:
        found = self.get(row, column, group)
        if found is None:
            raise UserError(f"{self.path}: no row {row!r}; it has {', '.join(self.rows)}")
        return found
