"""The files of a table."""

from dataclasses import fields
from pathlib import Path

from raretokens import csv_files
from raretokens.files import write_text
from raretokens.papers.table import Table
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.tables.latex import to_latex
from raretokens.reporting.tables.table_markdown import to_markdown

HEADER = [field.name for field in fields(Cell)]


def to_csv(cells: list[Cell]) -> str:
    return csv_files.to_csv(cells, HEADER)


def write_table(name: str, table: Table, cells: list[Cell], folder: Path) -> str:
    """The table as CSV, LaTeX and Markdown, which is returned."""
    markdown = to_markdown(table, cells)
    write_text(folder / f"{name}.csv", to_csv(cells))
    write_text(folder / f"{name}.tex", to_latex(table, cells, name))
    write_text(folder / f"{name}.md", markdown)
    return markdown
