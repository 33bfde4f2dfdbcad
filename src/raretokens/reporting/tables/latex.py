"""Cells as a LaTeX table, for a paper or thesis that stands on these runs."""

import jinja2

from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.declarations.schema import Table
from raretokens.reporting.tables.render import Grid, is_rare

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


def to_latex(table: Table, cells: list[Cell], name: str) -> str:
    """A `tabular` that needs the package booktabs alone, below a comment on where its numbers come from."""
    named = dict.fromkeys(run for cell in cells for run in cell.runs.split())
    files = [f"reports/runs/{run if '/' in run else f'{table.task}/{run}'}.json" for run in named]
    template = _environment().get_template("table.tex")
    return template.render(name=name, table=table, grid=Grid.of(table, cells), files=files)


def escaped(text: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in text)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    differs = r"$\neq$ " if cell.metric == "facts" and cell.status == "differs" else ""
    mark = r"\textdagger" if cell.quoted else r"\textdaggerdbl" if cell.doubtful else ""
    paper = f"({differs}{escaped(cell.paper)}{mark})" if cell.paper else ""
    if not cell.ours:
        return f"--- {paper}".strip() if paper or cell.status == "not run" else ""
    ours = escaped(cell.ours) + (rf" $\pm$ {cell.spread}" if cell.spread else "")
    if is_rare(cell):
        ours = rf"\emph{{{ours}}}"
    return (rf"\textbf{{{ours}}} {paper}" if cell.status == "match" else f"{ours} {paper}").strip()


def _environment() -> jinja2.Environment:
    """Jinja with marks that do not mean anything in LaTeX."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raretokens.reporting.tables"),
        autoescape=False,  # the filter tex escapes
        trim_blocks=True,
        keep_trailing_newline=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"tex": escaped, "cell": _shown}
    return environment
