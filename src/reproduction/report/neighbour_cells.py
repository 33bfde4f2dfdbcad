"""Cells of a table of nearest neighbours, with a row for each query and run and a column for each rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reproduction.papers.declarations import NOTHING, Reported
from reproduction.papers.table import RunRow
from reproduction.papers.task_scores import TaskScores
from reproduction.report.cells import Cell, TableContext, compared, why_not_run

SPACE = "\u2581"  # SentencePiece's prefix of a subword token that begins a word; the papers omit it
SEMANTIC = "semantic"  # prefix of a reported group: semantically related words with their ranks (FRAGE)


def word(token: str) -> str:
    return token.removeprefix(SPACE) or token


def bare(token: str) -> str:
    """Strip the affixes of a subword token: * (rare word or synonym), @@ (not the end of a word), and the prefix SPACE."""
    return token.rstrip("*").removesuffix("@@").removeprefix(SPACE) or token


@dataclass(frozen=True)
class RunLists:
    """The neighbours that a run lists for each query."""

    title: str
    run: str  # empty if no run is on the run sheet
    reason: str  # why the run lists no neighbours
    near: dict[str, list[list]]  # query -> subword token, cosine, group; nearest first
    ranks: dict[str, list[list]]  # query -> word, rank from 1; the rank is None if the word is not a single subword token

    @classmethod
    def of(cls, row: RunRow, scores: TaskScores, with_ranks: bool) -> "RunLists":
        run = scores.choose(row.runs)
        score = run and scores.read(run)
        reason = "" if score else why_not_run(row.runs, run)
        score = score or {}
        ranks = dict(score.get("neighbour_ranks", [])) if with_ranks else {}
        return cls(row.title, run or "", reason, dict(score.get("neighbours", [])), ranks)


def neighbour_cells(context: TableContext) -> Iterator[Cell]:
    """Yield the cells of the reported queries, then of other queries. A match is a reported neighbour of the same run."""
    table, reported = context.table, context.reported
    with_ranks = any(group.startswith(SEMANTIC) for *_, group in reported.cells)
    runs = [RunLists.of(row, context.scores, with_ranks) for row in table.rows]
    listed = [query for kind in ("near", "ranks") for run in runs for query in getattr(run, kind)]
    queries = {bare(query): query for _, query, _ in reported.cells}
    for query in [*queries, *dict.fromkeys(query for query in listed if query not in queries)]:
        for run in runs:
            key = run.title, queries.get(query, query)
            paper = {group: cell for (row, column, group), cell in reported.cells.items() if (row, column) == key}
            row = f"{queries.get(query, query)}, {run.title}"
            cells = _columns(query, run, paper, table.neighbours, context.at_paper_scale)
            for column, paper_text, own_text, about in cells:
                yield Cell(row, column, "neighbours", paper_text, own_text, runs=run.run, **about)


def _columns(
    query: str, run: RunLists, paper: dict[str, Reported], count: int, at_paper_scale: bool
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield column, reported text, measured text and further fields of each cell of a row."""
    listed = run.near.get(query)
    absent = "is no single token of this vocabulary" if listed == [] else "is not asked for at this scale"
    reason, near = run.reason or f"{query} {absent}", (listed or [])[:count]
    words = [cell for group, cell in paper.items() if group.startswith("rank")]
    known = {bare(cell.text) for cell in words}
    for rank in range(count):
        cell, about = words[rank] if rank < len(words) else NOTHING, {"status": "not run", "reason": reason}
        token, _, group = near[rank] if rank < len(near) else ("", 0, "")
        if token:
            about = {"status": compared(words, bare(word(token)) in known, at_paper_scale), "note": group}
        yield f"rank {rank + 1}", cell.text, word(token), {**about, "reported_cell": cell.key}
    semantic = {group.partition(":")[2]: cell for group, cell in paper.items() if group.startswith(SEMANTIC)}
    yield from _semantic_columns(semantic, run.ranks.get(query, []), reason, at_paper_scale)
    if words and near:
        both = known & {bare(token) for token, _, _ in near}
        yield "shared", "", f"{len(both)} of {len(words)}", {"status": "not reported"}


def _semantic_columns(
    reported: dict[str, Reported], own: list[list], reason: str, at_paper_scale: bool
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield the cells of semantically related words with their ranks: the reported words, then those of the run (FRAGE)."""
    papers = {bare(text): (text, cell) for text, cell in reported.items()}
    ranks = {bare(text): "" if rank is None else str(rank) for text, rank in own}
    for number, name in enumerate(dict.fromkeys([*papers, *ranks]), 1):
        label, paper = papers.get(name, (name, NOTHING))
        rank = ranks.get(name, "")
        about = {"status": compared(paper.text, rank == paper.text, at_paper_scale), "reported_cell": paper.key}
        if not rank:
            absent = f"{name} is no single token of this vocabulary" if name in ranks else reason
            about |= {"status": "not run", "reason": absent}
        yield f"semantic {number}", _pair(label, paper.text), _pair(name, rank), about


def _pair(name: str, rank: str) -> str:
    return f"{name}: {rank}" if rank else ""
