"""Tables of nearest neighbours: a row for each query and run, a column for each rank."""

from collections.abc import Iterator

from raretokens.tables.cell import Cell
from raretokens.tables.declarations import Table
from raretokens.tables.printed import PrintedTable
from raretokens.tables.scored import Scores

SPACE = "\u2581"  # SentencePiece's mark of a piece that begins a word; the paper prints its pieces without theirs


def neighbour_cells(table: Table, scores: Scores, printed: PrintedTable) -> Iterator[Cell]:
    """Printed queries first, then ours. A word is a match where the paper has it among the same run's neighbours."""
    stems = {row.title: scores.choose(row.runs) for row in table.rows}
    near = {title: dict((stem and scores.read(stem) or {}).get("neighbours", [])) for title, stem in stems.items()}
    reasons = {row.title: _reason(" or ".join(row.runs), stems[row.title], scores) for row in table.rows}
    queries = [*(column for _, column, _ in printed.cells), *(query for found in near.values() for query in found)]
    for query in dict.fromkeys(queries):
        for title, stem in stems.items():
            paper = [cell.text for key, cell in printed.cells.items() if key[:2] == (title, query)]
            found = near[title].get(query)
            absent = "is no single piece of this vocabulary" if found == [] else "is not asked for at this scale"
            reason = reasons[title] or f"{query} {absent}"
            yield from _ranks(f"{query}, {title}", stem or "", paper, found or [], reason, table.neighbours)


def _reason(names: str, stem: str | None, scores: Scores) -> str:
    if stem is None:
        return f"no run named {names} on the run sheet"
    return "" if scores.read(stem) else f"{stem} has no scores yet"


def _ranks(row: str, stem: str, paper: list[str], found: list, reason: str, ranks: int) -> Iterator[Cell]:
    words = [piece.removeprefix(SPACE) or piece for piece, _, _ in found]
    for rank in range(ranks):
        printed, word = (column[rank] if rank < len(column) else "" for column in (paper, words))
        status = "not run" if not word else "match" if word in paper else "differs" if paper else "ours only"
        note = found[rank][2] if word else ""
        yield _cell(row, f"rank {rank + 1}", printed, word, stem, status, "" if word else reason, note)
    if paper and words:
        shared = f"{len({*paper} & {*words})} of {len(paper)}"
        yield _cell(row, "shared", "", shared, stem, "ours only", "", "")


def _cell(row: str, column: str, paper: str, ours: str, stem: str, status: str, reason: str, note: str) -> Cell:
    return Cell(row, column, "neighbours", paper, ours, "", "", stem, status, reason, note)
