"""Parts of a text that are files of the repository: generated tables as they are, CSV as a Markdown table.

    <!-- include reports/tables/agg-3.md -->
    <!-- include benchmarks/loss-cpu.csv where width=512 columns method, time_to_plain -->

What stands between such a line and `<!-- end -->` is the file's content: of a CSV the rows whose cells equal those after `where`
(several are separated by blanks), and the columns after `columns`; all of them without.
"""

import csv
import io
import re
from pathlib import Path

from raretokens.errors import UserError, nearest

INCLUDE = re.compile(
    r"(<!-- include (?P<file>\S+)(?: where (?P<where>[^\n]+?))?(?: columns (?P<columns>[^\n]+?))? -->\n)(?:.*?)(<!-- end -->)",
    re.DOTALL,
)


def refresh(text: str, folder: Path) -> str:
    """A text with its included parts taken anew from the files, whose paths are relative to the folder.

    Raises UserError where a file, a column or every row is missing, or an include has no end.
    """
    if text.count("<!-- include ") != len(INCLUDE.findall(text)):
        raise UserError("an `<!-- include FILE -->` has no `<!-- end -->`")

    def fresh(found: re.Match[str]) -> str:
        path = folder / found["file"]
        if not path.is_file():
            raise UserError(f"{path}: no such file; an include names it")
        content = path.read_text(encoding="utf-8")
        if path.suffix == ".csv":
            content = _table(path, content, found["where"] or "", found["columns"] or "")
        return found[1] + content.rstrip() + "\n" + found[found.lastindex or 0]

    return INCLUDE.sub(fresh, text)


def _table(path: Path, content: str, where: str, columns: str) -> str:
    """Rows and columns of a CSV as a Markdown table."""
    reader = csv.DictReader(io.StringIO(content))
    known = list(reader.fieldnames or ())
    wanted = [part.partition("=")[::2] for part in where.split()]
    shown = [part.strip() for part in columns.split(",")] if columns else known
    for name in (*(name for name, _ in wanted), *shown):
        if name not in known:
            raise UserError(f"{path}: no column {name!r}; {nearest(name, known)}")
    rows = [row for row in reader if all(row[name] == value for name, value in wanted)]
    if not rows:
        raise UserError(f"{path}: no row where {where}; an include names it")
    cells = [[_cell(row[name]) for name in shown] for row in rows]
    lines = [[name.replace("_", " ") for name in shown], ["---"] * len(shown), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")
