"""Cells as the paper's grid in Markdown: ours (paper)."""

import re

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.declarations.paper_table import Table
from raretokens.reporting.tables.grid import Grid
from raretokens.reporting.tables.marks import Marks, marked
from raretokens.reporting.tables.remarks import remarks

LEGEND = (
    "Ours (printed). ± is half the range over seeds; of sacreBLEU with one seed, half its bootstrap 95 % interval. "
    "**Bold**: within the printed number's tolerance. † quoted in print from elsewhere. ‡ doubtful in print. — not run."
)
NEIGHBOURS = (
    "Ours (printed), nearest first. **Bold**: among the printed neighbours of the same query and run. "
    "*Italic*: of the rare group. In print * marks a rare word or a word of the other language. — not run."
)
FACTS = "Ours (printed). **Bold**: as printed (32k stands for 32,768). ≠ not as printed. — not run."


def escaped(text: str) -> str:
    """Text that stands in a Markdown table as it is."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


MARKS = Marks(escaped, "—", "≠ ", quoted="†", suspicious=" ‡", spread=" ± ", italic="*%s*", bold="**%s**")


def to_markdown(table: Table, cells: list[Cell]) -> str:
    """Title, grid, legend and remarks."""
    grid = Grid.of(table, cells)
    lines = [f"**{table.paper} {table.place}: {table.title}**", ""]
    lines += ["| | " + " | ".join(grid.columns) + " |", "|---|" + "---|" * len(grid.columns)]
    for row, inside in grid.rows.items():
        lines.append(f"| {escaped(row)} | " + " | ".join(marked(cell, MARKS) for cell in inside) + " |")
    legend = NEIGHBOURS if table.neighbours else FACTS if table.facts else LEGEND
    return "\n".join([*lines, "", legend, *_listed(remarks(table, cells)), ""])


def _listed(places: dict[str, list[str]]) -> list[str]:
    return ["", *(f"* {escaped('; '.join(where))}: {text}" for text, where in places.items())] if places else []
