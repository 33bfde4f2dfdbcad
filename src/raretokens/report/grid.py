"""A table as the paper lays it out: rows, columns, marks of cells, and remarks below."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from raretokens.papers.table import Table
from raretokens.report.cells import Cell


@dataclass(frozen=True)
class Grid:
    columns: list[str]
    rows: dict[str, list[Cell | None]]  # title, and what is said beside it -> a cell or None for each column
    added: list[str]  # rows that the paper's table does not have

    @classmethod
    def of(cls, table: Table, cells: list[Cell]) -> "Grid":
        """Columns in the order of the declaration, then as they come."""
        used = dict.fromkeys(cell.column for cell in cells)
        declared = [part.title for part in (*table.columns, *table.subjects)]
        columns = list(dict.fromkeys([*(title for title in declared if title in used), *used]))
        by_place = {(cell.row, cell.column): cell for cell in cells}
        labels = {row.title: row.label for row in table.rows}
        titles = {row: labels.get(row, row) for row in dict.fromkeys(cell.row for cell in cells)}
        rows = {label: [by_place.get((row, column)) for column in columns] for row, label in titles.items()}
        own = {row.label or row.title for row in table.rows}
        return cls(columns, rows, [row for row in rows if row not in own] if table.also else [])


@dataclass(frozen=True)
class Marks:
    """How a kind of text writes them."""

    escaped: Callable[[str], str]
    missing: str  # instead of a number of ours
    differs: str  # before a printed fact
    ways: dict[str, str]  # direction of a difference -> the sign after ours, unless ours matches
    quoted: str  # after a printed number
    suspicious: str
    spread: str  # between a number and its spread
    italic: str  # of a neighbour of the rare group; %s is the text
    bold: str  # of a match


def marked(cell: Cell | None, marks: Marks) -> str:
    if cell is None:
        return ""
    paper = ""
    if cell.paper:
        before = marks.differs if cell.metric == "facts" and cell.status == "differs" else ""
        after = marks.quoted if cell.quoted else marks.suspicious if cell.suspicious else ""
        paper = f"({before}{marks.escaped(cell.paper)}{after})"
    if cell.ours:
        return f"{_ours(cell, marks)} {paper}".strip()
    return f"{marks.missing} {paper}".strip() if paper or cell.status == "not run" else ""


def _ours(cell: Cell, marks: Marks) -> str:
    number, spread = cell.shown
    ours = marks.escaped(number) + (f"{marks.spread}{spread}" if spread else "")
    if cell.is_rare:
        ours = marks.italic % ours
    if cell.status == "match":
        return marks.bold % ours
    return f"{ours} {marks.ways[cell.direction]}" if cell.direction else ours


def remarks(table: Table, cells: list[Cell]) -> dict[str, list[str]]:
    """Remark -> the rows that it holds for; the reasons of a table of facts, where a run is a column, hold for columns."""
    places: dict[str, list[str]] = defaultdict(list)
    rows = {row: [cell for cell in cells if cell.row == row] for row in dict.fromkeys(cell.row for cell in cells)}
    reasons_by_column = table.facts and not table.is_of_text
    if reasons_by_column:
        for column in dict.fromkeys(cell.column for cell in cells):
            _add(places, column, _said([cell for cell in cells if cell.column == column], "row", "reason"))
    for row, inside in rows.items():
        for field in ("remark",) if reasons_by_column else ("reason", "remark"):
            _add(places, row, _said(inside, "column", field))
        _add(places, row, _printed_notes(inside))
    return places


def _add(places: dict[str, list[str]], line: str, said: Iterator[tuple[str, list[str]]]) -> None:
    for text, parts in said:
        places[text].append(f"{line}, {', '.join(parts)}" if parts else line)


def _said(inside: list[Cell], across: str, field: str) -> Iterator[tuple[str, list[str]]]:
    """What is said of cells of a line, and of which: of none by name where it is said of all that have something said."""
    told = [cell for cell in inside if getattr(cell, field)]
    for text in dict.fromkeys(getattr(cell, field) for cell in told):
        some = [getattr(cell, across) for cell in told if getattr(cell, field) == text]
        yield text, [] if len(some) == len(told) else some


def _printed_notes(inside: list[Cell]) -> Iterator[tuple[str, list[str]]]:
    """Notes on printed numbers that tell more than the legend's †."""
    printed = [cell for cell in inside if cell.paper and cell.metric != "neighbours"]
    for note in dict.fromkeys(cell.note for cell in printed if cell.note and (not cell.quoted or ";" in cell.note)):
        some = [cell.column for cell in printed if cell.note == note]
        yield f"in print: {note}", [] if len(some) == len(printed) > 1 else some
