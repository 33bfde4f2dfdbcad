"""Tables of nearest neighbours: a row for each query and run, a column for each rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from raretokens.evidence.scores import Scores
from raretokens.papers.printed import NOTHING, Printed, PrintedTable
from raretokens.papers.table import RunRow, Table
from raretokens.report.cells import Cell, Status, compared

SPACE = "\u2581"  # SentencePiece's mark of a piece that begins a word; the papers print their pieces without it


def word(piece: str) -> str:
    return piece.removeprefix(SPACE) or piece


def bare(piece: str) -> str:
    """A piece without marks: * of a rare word or a synonym, @@ of one that does not end a word, the mark of a blank."""
    return piece.rstrip("*").removesuffix("@@").removeprefix(SPACE) or piece


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


SEMANTIC = "semantic"  # beginning of a printed group: words that are near in meaning, with their ranks (FRAGE)


class RunLists(NamedTuple):
    """What a run lists for each query."""

    title: str
    run: str  # empty where none is on the run sheet
    reason: str  # why it lists nothing
    near: dict[str, Near]
    ranks: dict[str, Ranks]


class PrintedLists(NamedTuple):
    """What the paper lists for a query and run."""

    words: list[Printed]  # nearest first
    ranks: list[tuple[str, Printed]]  # word and its rank


def neighbour_cells(table: Table, scores: Scores, printed: PrintedTable, at_print: bool) -> Iterator[Cell]:
    """Printed queries first, then ours. A word is a match where the paper has it among the same run's neighbours."""
    runs = [_run_lists(row, scores, _has_ranks(printed)) for row in table.rows]
    for query, as_printed in _queries(printed, runs).items():
        for run in runs:
            paper = _printed_lists(printed, run.title, as_printed)
            place = QueryRow(f"{as_printed}, {run.title}", run.run, _why_absent(query, run), at_print)
            yield from _query_cells(place, query, run, paper, table.neighbours)


def _why_absent(query: str, run: RunLists) -> str:
    absent = "is no single piece of this vocabulary" if run.near.get(query) == [] else "is not asked for at this scale"
    return run.reason or f"{query} {absent}"


def _query_cells(place: QueryRow, query: str, run: RunLists, paper: PrintedLists, count: int) -> Iterator[Cell]:
    listed = run.near.get(query)
    near = (listed or [])[:count]
    yield from rank_cells(place, paper.words, near, count)
    yield from semantic_cells(place, paper.ranks, run.ranks.get(query, []))
    if paper.words and near:
        yield shared_cell(place, paper.words, near)


def _run_lists(row: RunRow, scores: Scores, with_ranks: bool) -> RunLists:
    run = scores.choose(row.runs)
    score = (run and scores.read(run)) or {}
    ranks = dict(score.get("named", [])) if with_ranks else {}
    return RunLists(row.title, run or "", _reason(row, run, scores), dict(score.get("neighbours", [])), ranks)


def _reason(row: RunRow, run: str | None, scores: Scores) -> str:
    if run is None:
        return f"no run named {' or '.join(row.runs)} on the run sheet"
    return "" if scores.read(run) else f"{run} has no scores yet"


def _has_ranks(printed: PrintedTable) -> bool:
    return any(group.startswith(SEMANTIC) for *_, group in printed.cells)


def _queries(printed: PrintedTable, runs: list[RunLists]) -> dict[str, str]:
    """Query without marks -> as it is printed."""
    queries = {bare(query): query for _, query, _ in printed.cells}
    for query in (*(query for run in runs for query in run.near), *(query for run in runs for query in run.ranks)):
        queries.setdefault(query, query)
    return queries


def _printed_lists(printed: PrintedTable, title: str, query: str) -> PrintedLists:
    cells = {group: cell for (row, column, group), cell in printed.cells.items() if (row, column) == (title, query)}
    ranks = [(group.partition(":")[2], cell) for group, cell in cells.items() if group.startswith(SEMANTIC)]
    return PrintedLists([cell for group, cell in cells.items() if group.startswith("rank")], ranks)
