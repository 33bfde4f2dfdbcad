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
    paper = _paper(cell, marks)
    if cell.ours:
        return f"{_ours(cell, marks)} {paper}".strip()
    return f"{marks.missing} {paper}".strip() if paper or cell.status == "not run" else ""


def _paper(cell: Cell, marks: Marks) -> str:
    if not cell.paper:
        return ""
    before = marks.differs if cell.metric == "facts" and cell.status == "differs" else ""
    after = marks.quoted if cell.quoted else marks.suspicious if cell.suspicious else ""
    return f"({before}{marks.escaped(cell.paper)}{after})"


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
    by_columns = table.facts and not table.is_of_text
    for place, text in _facts_remarks(cells) if by_columns else _rows_remarks(cells):
        places[text].append(place)
    return places


def _rows_remarks(cells: list[Cell]) -> Iterator[tuple[str, str]]:
    for row, inside in _lines(cells, "row"):
        yield from _said(row, inside, "column", lambda cell: cell.reason)
        yield from _said(row, inside, "column", lambda cell: cell.remark)
        yield from _printed_notes(row, inside)


def _facts_remarks(cells: list[Cell]) -> Iterator[tuple[str, str]]:
    for column, inside in _lines(cells, "column"):
        yield from _said(column, inside, "row", lambda cell: cell.reason)
    for row, inside in _lines(cells, "row"):
        yield from _said(row, inside, "column", lambda cell: cell.remark)
        yield from _printed_notes(row, inside)


def _lines(cells: list[Cell], key: str) -> Iterator[tuple[str, list[Cell]]]:
    for line in dict.fromkeys(getattr(cell, key) for cell in cells):
        yield line, [cell for cell in cells if getattr(cell, key) == line]


def _said(line: str, inside: list[Cell], across: str, words: Callable[[Cell], str]) -> Iterator[tuple[str, str]]:
    """What is said of cells of a line, of the line where it is said of all that have something said."""
    told = [cell for cell in inside if words(cell)]
    for text in dict.fromkeys(map(words, told)):
        some = [getattr(cell, across) for cell in told if words(cell) == text]
        yield (line if len(some) == len(told) else f"{line}, {', '.join(some)}"), text


def _printed_notes(row: str, inside: list[Cell]) -> Iterator[tuple[str, str]]:
    printed = [cell for cell in inside if cell.paper and cell.metric != "neighbours"]
    for note in dict.fromkeys(cell.note for cell in printed if _is_remark(cell)):
        some = [cell.column for cell in printed if cell.note == note]
        yield (row if len(some) == len(printed) > 1 else f"{row}, {', '.join(some)}"), f"in print: {note}"


def _is_remark(cell: Cell) -> bool:
    """Whether a note tells more than the legend's †."""
    return bool(cell.note) and (not cell.quoted or ";" in cell.note)
