"""Include files of the repository in a text: generated tables as they are, CSV files as Markdown tables.

    <!-- include reports/tables/agg-3.md -->
    <!-- include benchmarks/loss-cpu.csv where width=512 columns method, time_to_plain -->

The text between such a line and `<!-- end -->` is the content of the file. For a CSV file, `where` selects rows by the values of
their cells (separate several conditions with blanks), and `columns` selects columns. Without them, the whole file is included.
"""

import re
from pathlib import Path

import pandas as pd

from raretokens import csv_files
from raretokens.errors import UserError, nearest
from raretokens.report.effect_text import table

INCLUDE = re.compile(
    r"(?P<line><!-- include (?P<file>\S+)(?: where (?P<where>[^\n]+?))?(?: columns (?P<columns>[^\n]+?))? -->\n)"
    r"(?:.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def refresh(text: str, folder: Path) -> str:
    """Replace the included parts of a text with the current content of the files, whose paths are relative to the folder.

    Raises:
        UserError: if a file or a column does not exist, no row matches, or an include has no end.
    """
    if text.count("<!-- include ") != len(INCLUDE.findall(text)):
        raise UserError("an `<!-- include FILE -->` has no `<!-- end -->`")
    return INCLUDE.sub(lambda part: f"{part['line']}{_content(part, folder).rstrip()}\n{part['end']}", text)


def _content(part: re.Match[str], folder: Path) -> str:
    path = folder / part["file"]
    if not path.is_file():
        raise UserError(f"{path}: no such file; an include names it")
    if path.suffix == ".csv":
        return _to_markdown(_rows(path, part["where"] or "", part["columns"] or ""))
    return path.read_text(encoding="utf-8")


def _rows(path: Path, where: str, columns: str) -> pd.DataFrame:
    """Return the selected rows and columns of a CSV file."""
    rows = csv_files.read_csv(path)
    wanted = dict(part.partition("=")[::2] for part in where.split())
    shown = [part.strip() for part in columns.split(",")] if columns else list(rows)
    for name in (*wanted, *shown):
        if name not in rows:
            raise UserError(f"{path}: no column {name!r}; {nearest(name, rows)}")
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    if rows.empty:
        raise UserError(f"{path}: no row where {where}; an include names it")
    return rows[shown]


def _to_markdown(rows: pd.DataFrame) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows.itertuples(index=False, name=None)]
    return "\n".join(table([name.replace("_", " ") for name in rows], cells))
