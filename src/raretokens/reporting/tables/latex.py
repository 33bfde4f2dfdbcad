"""Cells as a LaTeX table, for a paper or thesis that stands on these runs."""

from raretokens.papers.table import Table
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.tables.grid import Grid
from raretokens.reporting.tables.marks import Marks, marked
from raretokens.reporting.templating import environment

ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\u2581": r"\_",
}
SYNTAX = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}  # of the template: marks that mean nothing in LaTeX


def escaped(text: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in text)


MARKS = Marks(
    escaped,
    missing="---",
    differs=r"$\neq$ ",
    ways={"same": r"$\uparrow\uparrow$", "opposite": r"$\uparrow\downarrow$"},
    quoted=r"\textdagger",
    suspicious=r"\textdaggerdbl",
    spread=r" $\pm$ ",
    italic=r"\emph{%s}",
    bold=r"\textbf{%s}",
)


def to_latex(table: Table, cells: list[Cell], name: str) -> str:
    """A `tabular` that needs the package booktabs alone, below a comment on where its numbers come from."""
    jinja = environment("raretokens.reporting.tables", autoescape=False, keep_trailing_newline=True, **SYNTAX)
    jinja.filters |= {"tex": escaped, "cell": lambda cell: marked(cell, MARKS)}
    template = jinja.get_template("table.tex")
    files, ways = _score_files(table, cells), any(cell.direction for cell in cells)
    return template.render(name=name, table=table, grid=Grid.of(table, cells), files=files, ways=ways)


def _score_files(table: Table, cells: list[Cell]) -> list[str]:
    runs = dict.fromkeys(run for cell in cells for run in cell.runs.split())
    return [f"reports/runs/{run if '/' in run else f'{table.task}/{run}'}.json" for run in runs]
