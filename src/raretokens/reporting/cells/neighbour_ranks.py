"""Cells of one query and run: its nearest words, and the ranks of words that are near in meaning."""

from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.papers.printed import NOTHING, Printed
from raretokens.reporting.cells.cell import Cell, Status, compared
from raretokens.reporting.cells.pieces import bare, word

Near = list[list]  # piece, cosine, group; nearest first
Ranks = list[list]  # word, rank from 1; None if the word is no single piece


@dataclass(frozen=True)
class QueryRow:
    row: str
    run: str
    reason: str  # of a neighbour that we do not have
    at_print: bool  # whether the scale is the printed one

    def cell(
        self, column: str, paper: str, ours: str, status: Status, reason: str = "", note: str = "", key: str = ""
    ) -> Cell:
        about = {"runs": self.run, "status": status, "reason": reason, "note": note, "printed": key}
        return Cell(self.row, column, "neighbours", paper, ours, **about)


def rank_cells(place: QueryRow, printed: list[Printed], near: Near, count: int) -> Iterator[Cell]:
    """The nearest words in order; each may match a printed one of any rank."""
    known = {bare(paper.text) for paper in printed}
    for rank in range(count):
        column, paper = f"rank {rank + 1}", printed[rank] if rank < len(printed) else NOTHING
        if rank >= len(near):
            yield place.cell(column, paper.text, "", "not run", place.reason, key=paper.key)
            continue
        piece, _, group = near[rank]
        status = compared(piece, printed, bare(word(piece)) in known, place.at_print)
        yield place.cell(column, paper.text, word(piece), status, note=group, key=paper.key)


def semantic_cells(place: QueryRow, printed: list[tuple[str, Printed]], ours: Ranks) -> Iterator[Cell]:
    """Ranks of words that are near in meaning: the printed ones, then ours (FRAGE)."""
    papers = {bare(text): (text, rank) for text, rank in printed}
    ranks = {bare(text): rank for text, rank in ours}
    for number, name in enumerate(dict.fromkeys([*papers, *ranks]), 1):
        label, paper = papers.get(name, (name, NOTHING))
        rank = "" if ranks.get(name) is None else str(ranks[name])
        reason = f"{name} is no single piece of this vocabulary" if name in ranks else place.reason
        status = compared(rank, paper.text, rank == paper.text, place.at_print)
        pairs = (_pair(label, paper.text), _pair(name, rank))
        yield place.cell(f"semantic {number}", *pairs, status, "" if rank else reason, key=paper.key)


def shared_cell(place: QueryRow, printed: list[Printed], near: Near) -> Cell:
    """How many of the printed words are among ours."""
    both = {bare(paper.text) for paper in printed} & {bare(piece) for piece, _, _ in near}
    return place.cell("shared", "", f"{len(both)} of {len(printed)}", "ours only")


def _pair(name: str, rank: str) -> str:
    return f"{name}: {rank}" if rank else ""
