"""Markdown of the reports: pages from templates, tables, and files of the repository that a text includes.

    <!-- include reports/tables/agg-3.md -->
    <!-- include benchmarks/loss-cpu.csv where width=512 columns method, time_to_plain -->

The text between such a line and `<!-- end -->` is the content of the file. For a CSV file, `where` selects rows by the values of
their cells (separate several conditions with blanks), and `columns` selects columns. Without them, the whole file is included.
Relative links of an included Markdown file are adjusted to the folder of the text.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from raretokens import csv_files
from raretokens.errors import UserError, nearest
from reproduction.papers.setting import TASKS

INCLUDE = re.compile(
    r"(?P<line><!-- include (?P<file>\S+)(?: where (?P<where>[^\n]+?))?(?: columns (?P<columns>[^\n]+?))? -->\n)"
    r"(?:.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)

LINK = re.compile(r"(?<=\]\()[^)#\s:]+(?=[)#])")  # a relative link target in Markdown


def environment(package: str, **options: Any) -> jinja2.Environment:
    """Return a Jinja environment with the templates of a package's folder `templates`, which are not HTML."""
    plain = {"autoescape": False, "keep_trailing_newline": True, "trim_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.PackageLoader(package), **plain | options)


def render(template: str, **values: Any) -> str:
    """Return a page of the reports. Its template can use `table` and `tasks`."""
    jinja = environment("reproduction.report")
    jinja.globals |= {"table": table, "tasks": TASKS}
    return jinja.get_template(template).render(values)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, without a line end after the last row."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def escaped(text: str) -> str:
    """Escape text for a Markdown table."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


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
    if path.suffix != ".csv":
        text, home = path.read_text(encoding="utf-8"), Path(part["file"]).parent
        return LINK.sub(lambda link: os.path.normpath(home / link[0]).replace(os.sep, "/"), text)
    rows = _rows(path, part["where"] or "", part["columns"] or "")
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows.itertuples(index=False, name=None)]
    return table([name.replace("_", " ") for name in rows], cells)


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
