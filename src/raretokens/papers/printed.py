"""The numbers that the papers report: data/paper/<table>.csv, one line a cell."""

import re
from dataclasses import dataclass
from pathlib import Path

from raretokens import csv_files
from raretokens.errors import UserError

COLUMNS = ["row", "column", "group", "value", "note"]
NUMBER = re.compile(r"(?P<digits>[\d.]+(?:e-?\d+)?)(?P<unit>[kKM]| million)?")
UNITS = {None: 1.0, "k": 1e3, "K": 1e3, "M": 1e6, " million": 1e6}


def number(text: str) -> float | None:
    """A reported number, which may have a unit (24M); None if it is not a number."""
    found = NUMBER.fullmatch(text)
    try:
        return float(found["digits"]) * UNITS[found["unit"]] if found else float(text)
    except ValueError:
        return None


def is_quoted(note: str) -> bool:
    """Whether the paper quotes the number from another paper."""
    return note.startswith("quoted")


def is_suspicious(note: str) -> bool:
    """Whether the number cannot be right, or not together with another one."""
    return note.startswith("suspicious")


@dataclass(frozen=True)
class Printed:
    """A cell of a table as the paper reports it."""

    text: str  # as printed; may be a word (nearest neighbours) or empty (a dash)
    note: str
    key: str = ""  # row > column > group; empty where the paper has no such cell

    @property
    def value(self) -> float | None:
        return number(self.text)


NOTHING = Printed("", "")


class PrintedTable:
    """Cells of one table by (row, column, group)."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.csv"
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file; a table or a claim names it")
        lines = csv_files.read_csv(self.path)[COLUMNS].itertuples(index=False, name=None)
        self.cells = {
            (row, column, group): Printed(value, note, " > ".join((row, column, group)))
            for row, column, group, value, note in lines
        }
        self.rows = list(dict.fromkeys(row for row, _, _ in self.cells))

    def get(self, row: str, column: str | None, group: str | None) -> Printed | None:
        """The cell, or None where the paper has no such column; an unknown row is an empty cell."""
        if column is None:
            return None
        if not any(key[1:] == (column, group) for key in self.cells):
            known = sorted({" / ".join(key[1:]) for key in self.cells})
            raise UserError(f"{self.path}: no column {column} / {group}; it has {', '.join(known)}")
        return self.cells.get((row, column, group))

    def mean(self, row: str, column: str, group: str) -> float | None:
        """The printed number; for the group *, the mean over all groups of that row and column."""
        if group != "*":
            return self._cell(row, column, group).value
        numbers = [
            cell.value for key, cell in self.cells.items() if key[:2] == (row, column) and cell.value is not None
        ]
        return sum(numbers) / len(numbers) if numbers else None

    def _cell(self, row: str, column: str, group: str) -> Printed:
        cell = self.get(row, column, group)
        if cell is None:
            raise UserError(f"{self.path}: no row {row!r}; it has {', '.join(self.rows)}")
        return cell
