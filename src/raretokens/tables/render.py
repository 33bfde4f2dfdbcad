"""Cells as CSV, and as the paper's grid in Markdown: ours (paper)."""

import csv
import io

from raretokens.tables.cells import Cell
from raretokens.tables.declarations import Table

HEADER = ["row", "column", "metric", "paper", "ours", "spread", "delta", "runs", "status", "note"]
LEGEND = (
    "Ours (printed). ± is half the range over seeds. **Bold**: within the printed number's tolerance. "
    "† quoted in print from elsewhere. — not run."
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
    return "\n".join([*lines, "", LEGEND, *_remarks(cells), ""])


def _shown(cell: Cell | None, quoted: bool) -> str:
    if cell is None:
        return ""
    paper = f"({cell.paper}{'†' if quoted else ''})" if cell.paper else ""
    if not cell.ours:
        return f"— {paper}".strip() if paper else ""
    ours = f"{cell.ours} ± {cell.spread}" if cell.spread else cell.ours
    if cell.metric == "neighbours" and cell.note == "rare":
        ours = f"*{ours}*"
    return f"**{ours}** {paper}".strip() if cell.status == "match" else f"{ours} {paper}".strip()


def _remarks(cells: list[Cell]) -> list[str]:
    """Remarks on printed numbers, and why rows were not run; the same words once."""
    seen: dict[str, list[str]] = {}
    for cell in cells:
        if cell.note and not (cell.metric == "neighbours" and cell.ours):
            seen.setdefault(cell.note, []).append(
                f"{cell.row}, {cell.column}" if cell.status != "not run" else cell.row
            )
    return ["", *(f"* {'; '.join(dict.fromkeys(places))}: {note}" for note, places in seen.items())] if seen else []
