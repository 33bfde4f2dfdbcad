"""From a table's declaration and the scores to its cells and its files: CSV, Markdown and LaTeX."""

from dataclasses import fields
from pathlib import Path

from raretokens import csv_files
from raretokens.evidence.scores import Scores
from raretokens.files import write_text
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import Table
from raretokens.report import fact_cells, run_cells
from raretokens.report.cells import Cell
from raretokens.report.neighbour_cells import neighbour_cells
from raretokens.report.table_texts import to_latex, to_markdown


def table_cells(
    declared: Declarations, table: Table, scores: dict[str, Scores], corpora: dict[str, str], at_print: bool = True
) -> list[Cell]:
    """All cells of a table, row by row.

    corpora: the scale's text of each task. at_print: whether the scale is the printed one; else no number can match.
    """
    printed = declared.printed(table.printed)
    if table.facts:
        return list(fact_cells.fact_cells(fact_cells.Place(declared, table, scores, printed, corpora, at_print)))
    if table.neighbours:
        return list(neighbour_cells(table, scores[table.task], printed, at_print))
    return run_cells.run_cells(run_cells.Place(declared, table, scores[table.task], printed, at_print))


HEADER = [field.name for field in fields(Cell)]


def to_csv(cells: list[Cell]) -> str:
    return csv_files.to_csv(cells, HEADER)


def write_table(name: str, table: Table, cells: list[Cell], reports: Path) -> str:
    """The table as CSV, LaTeX and Markdown, which is returned."""
    markdown = to_markdown(table, cells)
    write_text(reports / f"tables/{name}.csv", to_csv(cells))
    write_text(reports / f"tables/{name}.md", markdown)
    write_text(reports / f"latex/{name}.tex", to_latex(table, cells, name))
    return markdown
