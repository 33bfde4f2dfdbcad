"""From a table's declaration and the scores to its cells."""

from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import Table
from raretokens.reporting.cells import fact_cells as facts
from raretokens.reporting.cells import run_cells as runs
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.cells.neighbour_cells import neighbour_cells


def table_cells(
    declared: Declarations, table: Table, scores: dict[str, Scores], corpora: dict[str, str], at_print: bool = True
) -> list[Cell]:
    """All cells of a table, row by row.

    corpora: the scale's text of each task. at_print: whether the scale is the printed one; else no number can match.
    """
    printed = declared.printed(table.printed)
    if table.facts:
        return list(facts.fact_cells(facts.Place(declared, table, scores, printed, corpora, at_print)))
    if table.neighbours:
        return list(neighbour_cells(table, scores[table.task], printed, at_print))
    return runs.run_cells(runs.Place(declared, table, scores[table.task], printed, at_print))
