"""From a table's declaration and the scores to its cells."""

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.cells.fact_cells import fact_cells
from raretokens.reporting.cells.neighbour_cells import neighbour_cells
from raretokens.reporting.cells.run_cells import run_cells
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.declarations.paper_table import Table
from raretokens.reporting.declarations.printed import PrintedTable
from raretokens.reporting.scored import Scores


def table_cells(declared: Declarations, table: Table, scores: dict[str, Scores], corpora: dict[str, str]) -> list[Cell]:
    """All cells of a table, row by row; corpora: the scale's text of each task."""
    printed = PrintedTable(declared.folder, table.printed)
    if table.facts:
        return list(fact_cells(declared, table, scores, printed, corpora))
    if table.neighbours:
        return list(neighbour_cells(table, scores[table.task], printed))
    return run_cells(declared, table, scores[table.task], printed)
