"""Remarks below a table: why there is no number, and notes on printed numbers; the same words stand once."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from raretokens.papers.table import Table
from raretokens.reporting.cells.cell import Cell


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
        yield from _notes(row, inside)


def _facts_remarks(cells: list[Cell]) -> Iterator[tuple[str, str]]:
    for column, inside in _lines(cells, "column"):
        yield from _said(column, inside, "row", lambda cell: cell.reason)
    for row, inside in _lines(cells, "row"):
        yield from _said(row, inside, "column", lambda cell: cell.remark)
        yield from _notes(row, inside)


def _lines(cells: list[Cell], key: str) -> Iterator[tuple[str, list[Cell]]]:
    for line in dict.fromkeys(getattr(cell, key) for cell in cells):
        yield line, [cell for cell in cells if getattr(cell, key) == line]


def _said(line: str, inside: list[Cell], across: str, words: Callable[[Cell], str]) -> Iterator[tuple[str, str]]:
    """What is said of cells of a line, of the line where it is said of all that have something said."""
    told = [cell for cell in inside if words(cell)]
    for text in dict.fromkeys(map(words, told)):
        some = [getattr(cell, across) for cell in told if words(cell) == text]
        yield (line if len(some) == len(told) else f"{line}, {', '.join(some)}"), text


def _notes(row: str, inside: list[Cell]) -> Iterator[tuple[str, str]]:
    printed = [cell for cell in inside if cell.paper and cell.metric != "neighbours"]
    for note in dict.fromkeys(cell.note for cell in printed if _is_remark(cell)):
        some = [cell.column for cell in printed if cell.note == note]
        yield (row if len(some) == len(printed) > 1 else f"{row}, {', '.join(some)}"), f"in print: {note}"


def _is_remark(cell: Cell) -> bool:
    """Whether a note tells more than the legend's †."""
    return bool(cell.note) and (not cell.quoted or ";" in cell.note)
