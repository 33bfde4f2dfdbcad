"""Cells as the paper's grid in Markdown: ours (paper)."""

import re

from raretokens.papers.table import Table
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.tables.grid import Grid
from raretokens.reporting.tables.marks import Marks, marked
from raretokens.reporting.tables.remarks import remarks

LEGEND = (
    "Ours (printed). ± is half the range over seeds; of sacreBLEU with one seed, half its bootstrap 95 % interval. "
    "**Bold**: within the printed number's tolerance, at the printed scale. ⇈ the difference to the first row of runs (or to "
    "the row's own baseline) has the printed sign, ⇅ the other one. † quoted in print from elsewhere. ‡ doubtful in print. "
    "— not run."
)
NEIGHBOURS = (
    "Ours (printed), nearest first. **Bold**: among the printed neighbours of the same query and run, at the printed scale. "
    "*Italic*: of the rare group. In print * marks a rare word or a word of the other language. — not run."
)
FACTS = (
    "Ours (printed). **Bold**: as printed (32k stands for 32,768). ≠ not as printed. ‡ doubtful in print. — not run."
)
TEXT = f"{FACTS} ⇈ the sign of the printed result, ⇅ the other one."
ADDED = "no rows of this table in print, but runs of the run sheet, for comparison."
WAYS = {"same": "⇈", "opposite": "⇅"}


def escaped(text: str) -> str:
    """Text that stands in a Markdown table as it is."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


MARKS = Marks(escaped, "—", "≠ ", WAYS, quoted="†", suspicious=" ‡", spread=" ± ", italic="*%s*", bold="**%s**")


def to_markdown(table: Table, cells: list[Cell]) -> str:
    """Title, grid, legend and remarks."""
    grid = Grid.of(table, cells)
    lines = [f"**{table.paper} {table.place}: {table.title}**", ""]
    lines += ["| | " + " | ".join(grid.columns) + " |", "|---|" + "---|" * len(grid.columns)]
    for row, inside in grid.rows.items():
        lines.append(f"| {escaped(row)} | " + " | ".join(marked(cell, MARKS) for cell in inside) + " |")
    legend = NEIGHBOURS if table.neighbours else (TEXT if table.is_of_text else FACTS) if table.facts else LEGEND
    if added := added_rows(table, grid):
        legend += f" {escaped(', '.join(added))}: {ADDED}"
    return "\n".join([*lines, "", legend, *_listed(remarks(table, cells)), ""])


def added_rows(table: Table, grid: Grid) -> list[str]:
    """Rows that the paper's table does not have."""
    own = {row.label or row.title for row in table.rows}
    return [row for row in grid.rows if row not in own] if table.also else []


def _listed(places: dict[str, list[str]]) -> list[str]:
    return ["", *(f"* {escaped('; '.join(where))}: {text}" for text, where in places.items())] if places else []
