"""A cell in a grid: ours (printed), with marks for what a reader should know of either."""

from collections.abc import Callable
from dataclasses import dataclass

from raretokens.reporting.cells.cell import Cell


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
