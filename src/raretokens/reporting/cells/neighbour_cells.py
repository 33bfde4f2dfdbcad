"""Tables of nearest neighbours: a row for each query and run, a column for each rank."""

from collections.abc import Iterator

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.declarations.printed import PrintedTable
from raretokens.reporting.declarations.schema import Table
from raretokens.reporting.scored import Scores

SPACE = "\u2581"  # SentencePiece's mark of a piece that begins a word; the papers print their pieces without it
Found = list[list]  # piece, cosine, group; nearest first


def bare(piece: str) -> str:
    """A piece without marks: * of a rare word or a synonym, @@ of one that does not end a word, the mark of a blank."""
    return piece.rstrip("*").removesuffix("@@").removeprefix(SPACE) or piece


def neighbour_cells(table: Table, scores: Scores, printed: PrintedTable) -> Iterator[Cell]:
    """Printed queries first, then ours. A word is a match where the paper has it among the same run's neighbours."""
    stems = {row.title: scores.choose(row.runs) for row in table.rows}
    files = {title: stem and scores.read(stem) or {} for title, stem in stems.items()}
    near = {title: dict(file.get("neighbours", [])) for title, file in files.items()}
    reasons = {row.title: _reason(" or ".join(row.runs), stems[row.title], scores) for row in table.rows}
    queries = {bare(query): query for _, query, _ in printed.cells}
    wants_named = any(group.startswith("semantic") for *_, group in printed.cells)
    ranks = {title: dict(file.get("named", [])) if wants_named else {} for title, file in files.items()}
    asked = [query for found in (*near.values(), *ranks.values()) for query in found]
    queries |= {query: queries.get(query, query) for query in asked}
    for query, shown in queries.items():
        for title, stem in stems.items():
            paper = {key[2]: cell.text for key, cell in printed.cells.items() if key[:2] == (title, shown)}
            found = near[title].get(query)
            absent = "is no single piece of this vocabulary" if found == [] else "is not asked for at this scale"
            reason = reasons[title] or f"{query} {absent}"
            row = f"{shown}, {title}"
            words = [text for key, text in paper.items() if key.startswith("rank")]
            named = [(key.partition(":")[2], text) for key, text in paper.items() if key.startswith("semantic")]
            yield from _ranks(row, stem or "", words, (found or [])[: table.neighbours], reason, table.neighbours)
            yield from _semantic(row, stem or "", named, ranks[title].get(query, []), reason)
            if words and found:
                yield _shared(row, stem or "", words, found[: table.neighbours])


def _reason(names: str, stem: str | None, scores: Scores) -> str:
    if stem is None:
        return f"no run named {names} on the run sheet"
    return "" if scores.read(stem) else f"{stem} has no scores yet"


def _ranks(row: str, stem: str, paper: list[str], found: Found, reason: str, ranks: int) -> Iterator[Cell]:
    words = [piece.removeprefix(SPACE) or piece for piece, _, _ in found]
    known = {bare(word) for word in paper}
    for rank in range(ranks):
        printed, word = (column[rank] if rank < len(column) else "" for column in (paper, words))
        status = "not run" if not word else "match" if bare(word) in known else "differs" if paper else "ours only"
        note = found[rank][2] if word else ""
        yield _cell(row, f"rank {rank + 1}", printed, word, stem, status, "" if word else reason, note)


def _semantic(row: str, stem: str, named: list[tuple[str, str]], ours: list[list], reason: str) -> Iterator[Cell]:
    """Rank from 1 of words that are near in meaning (FRAGE); ours: word and rank, which is None if it is no piece."""
    ranks = {bare(word): rank for word, rank in ours}
    shown = {bare(word): (word, printed) for word, printed in named}
    for number, word in enumerate(dict.fromkeys([*shown, *ranks]), 1):
        label, printed = shown.get(word, (word, ""))
        rank = "" if ranks.get(word) is None else str(ranks[word])
        status = "not run" if not rank else "ours only" if not printed else "match" if rank == printed else "differs"
        why = "" if rank else f"{word} is no single piece of this vocabulary" if word in ranks else reason
        ours_text, paper = (f"{name}: {value}" if value else "" for name, value in ((word, rank), (label, printed)))
        yield _cell(row, f"semantic {number}", paper, ours_text, stem, status, why, "")


def _shared(row: str, stem: str, paper: list[str], found: Found) -> Cell:
    both = {bare(word) for word in paper} & {bare(piece) for piece, _, _ in found}
    return _cell(row, "shared", "", f"{len(both)} of {len(paper)}", stem, "ours only", "", "")


def _cell(row: str, column: str, paper: str, ours: str, stem: str, status: str, reason: str, note: str) -> Cell:
    return Cell(row, column, "neighbours", paper, ours, "", "", stem, status, reason, note)
