"""Cells as CSV, and as the paper's grid in Markdown: ours (paper)."""

import csv
import io
import re
from collections import defaultdict

from raretokens.tables.cell import Cell
from raretokens.tables.declarations import Table

HEADER = ["row", "column", "metric", "paper", "ours", "spread", "delta", "runs", "status", "reason", "note"]
LEGEND = (
    "Ours (printed). ± is half the range over seeds. **Bold**: within the printed number's tolerance. "
    "† quoted in print from elsewhere. — not run."
)
NEIGHBOURS = (
    "Ours (printed), nearest first. **Bold**: among the printed neighbours of the same query and run. "
    "*Italic*: of the rare group. — not run."
)


def to_csv(cells: list[Cell]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.as_dict() for cell in cells)
    return out.getvalue()


def to_markdown(table: Table, cells: list[Cell]) -> str:
    """Title, grid, legend and remarks."""
    quoted = {row.title for row in table.rows if row.quoted}
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_place = {(cell.row, cell.column): cell for cell in cells}
    lines = [f"**{table.paper} {table.place}: {table.title}**", ""]
    lines += ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in dict.fromkeys(cell.row for cell in cells):
        shown = [_shown(by_place.get((row, column)), row in quoted) for column in columns]
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return "\n".join([*lines, "", NEIGHBOURS if table.neighbours else LEGEND, *_remarks(cells), ""])


def escaped(text: str) -> str:
    """Text that stands in a Markdown table as it is."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


def _shown(cell: Cell | None, quoted: bool) -> str:
    if cell is None:
        return ""
    paper = f"({escaped(cell.paper)}{'†' if quoted else ''})" if cell.paper else ""
    if not cell.ours:
        return f"— {paper}".strip() if paper or cell.status == "not run" else ""
    ours = f"{cell.ours} ± {cell.spread}" if cell.spread else escaped(cell.ours)
    if cell.metric == "neighbours" and cell.note == "rare":
        ours = f"*{ours}*"
    return f"**{ours}** {paper}".strip() if cell.status == "match" else f"{ours} {paper}".strip()


def _remarks(cells: list[Cell]) -> list[str]:
    """Why rows were not run, and remarks on printed numbers; the same words once, a row where they hold for all of it."""
    places: dict[str, list[str]] = defaultdict(list)
    for row in dict.fromkeys(cell.row for cell in cells):
        inside = [cell for cell in cells if cell.row == row]
        for reason in dict.fromkeys(cell.reason for cell in inside if cell.reason):
            places[reason].append(row)
        printed = [cell for cell in inside if cell.paper and cell.metric != "neighbours"]
        for note in dict.fromkeys(cell.note for cell in printed if cell.note):
            noted = [cell.column for cell in printed if cell.note == note]
            places[note].append(row if len(noted) == len(printed) > 1 else f"{row}, {', '.join(noted)}")
    return ["", *(f"* {'; '.join(where)}: {text}" for text, where in places.items())] if places else []
