"""Cells of one query and run: its nearest words, and the ranks of words that are near in meaning."""

from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.reporting.cells.cell import Cell, Status, compared
from raretokens.reporting.cells.pieces import bare, word

Near = list[list]  # piece, cosine, group; nearest first
Ranks = list[list]  # word, rank from 1; None if the word is no single piece


@dataclass(frozen=True)
class QueryRow:
    row: str
    run: str
    reason: str  # of a neighbour that we do not have

    def cell(self, column: str, paper: str, ours: str, status: Status, reason: str = "", note: str = "") -> Cell:
        return Cell(self.row, column, "neighbours", paper, ours, runs=self.run, status=status, reason=reason, note=note)


def rank_cells(place: QueryRow, printed: list[str], near: Near, count: int) -> Iterator[Cell]:
    """The nearest words in order; each may match a printed one of any rank."""
    known = {bare(text) for text in printed}
    for rank in range(count):
        column, paper = f"rank {rank + 1}", printed[rank] if rank < len(printed) else ""
        if rank >= len(near):
            yield place.cell(column, paper, "", "not run", place.reason)
            continue
        piece, _, group = near[rank]
        status = compared(piece, printed, bare(word(piece)) in known)
        yield place.cell(column, paper, word(piece), status, note=group)


def semantic_cells(place: QueryRow, printed: list[tuple[str, str]], ours: Ranks) -> Iterator[Cell]:
    """Ranks of words that are near in meaning: the printed ones, then ours (FRAGE)."""
    papers = {bare(text): (text, rank) for text, rank in printed}
    ranks = {bare(text): rank for text, rank in ours}
    for number, name in enumerate(dict.fromkeys([*papers, *ranks]), 1):
        label, paper = papers.get(name, (name, ""))
        rank = "" if ranks.get(name) is None else str(ranks[name])
        reason = f"{name} is no single piece of this vocabulary" if name in ranks else place.reason
        status = compared(rank, paper, rank == paper)
        yield place.cell(f"semantic {number}", _pair(label, paper), _pair(name, rank), status, "" if rank else reason)


def shared_cell(place: QueryRow, printed: list[str], near: Near) -> Cell:
    """How many of the printed words are among ours."""
    both = {bare(text) for text in printed} & {bare(piece) for piece, _, _ in near}
    return place.cell("shared", "", f"{len(both)} of {len(printed)}", "ours only")


def _pair(name: str, rank: str) -> str:
    return f"{name}: {rank}" if rank else ""
