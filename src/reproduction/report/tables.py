"""Build a table's cells from its declaration and the scores, and write them as CSV, Markdown and LaTeX."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import jinja2

from raretokens import csv_files
from raretokens.files import write_text
from reproduction.papers.declarations import Declarations
from reproduction.papers.table import Table
from reproduction.papers.task_scores import TaskScores
from reproduction.report.cells import Cell, TableContext
from reproduction.report.fact_cells import fact_cells
from reproduction.report.markdown import environment, escaped
from reproduction.report.neighbour_cells import neighbour_cells
from reproduction.report.run_cells import run_cells

WAYS = {"same": "⇈", "opposite": "⇅"}


@dataclass(frozen=True)
class Grid:
    """The cells of a table, arranged in rows and columns."""

    columns: list[str]
    rows: dict[str, list[Cell | None]]  # title, with its addition in parentheses -> a cell or None for each column
    added: list[str]  # rows that the paper's table does not have

    @classmethod
    def of(cls, table: Table, cells: list[Cell]) -> "Grid":
        """Arrange cells with the columns in the order of the declaration, followed by other columns."""
        used = dict.fromkeys(cell.column for cell in cells)
        declared = [part.title for part in (*table.columns, *table.subjects)]
        columns = list(dict.fromkeys([*(title for title in declared if title in used), *used]))
        by_place = {(cell.row, cell.column): cell for cell in cells}
        labels = {row.title: row.label for row in table.rows}
        titles = {row: labels.get(row, row) for row in dict.fromkeys(cell.row for cell in cells)}
        rows = {label: [by_place.get((row, column)) for column in columns] for row, label in titles.items()}
        return cls(columns, rows, [row for row in rows if row not in labels.values()] if table.also else [])


@dataclass(frozen=True)
class Marks:
    """Markup of cells in an output format."""

    escaped: Callable[[str], str]
    missing: str  # replaces a measured number
    differs: str  # precedes a reported fact
    ways: dict[str, str]  # direction of a difference -> sign after the measured number, unless the number matches
    quoted: str  # follows a reported number
    suspicious: str
    spread: str  # between a number and its spread
    italic: str  # format of a neighbour of the rare group; %s is the text
    bold: str  # format of a match


def marked(cell: Cell | None, marks: Marks) -> str:
    """Return the text of a cell with its markup."""
    if cell is None:
        return ""
    paper = ""
    if cell.reported:
        before = marks.differs if cell.metric == "facts" and cell.status == "differs" else ""
        after = marks.quoted if cell.quoted else marks.suspicious if cell.suspicious else ""
        paper = f"({before}{marks.escaped(cell.reported)}{after})"
    if cell.measured:
        return f"{_measured(cell, marks)} {paper}".strip()
    return f"{marks.missing} {paper}".strip() if paper or cell.status == "not run" else ""


def _measured(cell: Cell, marks: Marks) -> str:
    number, spread = cell.shown
    text = marks.escaped(number) + (f"{marks.spread}{spread}" if spread else "")
    if cell.is_rare:
        text = marks.italic % text
    if cell.status == "match":
        return marks.bold % text
    return f"{text} {marks.ways[cell.direction]}" if cell.direction else text


def remarks(table: Table, cells: list[Cell]) -> dict[str, list[str]]:
    """Return remark -> its rows. In a table of facts a column is a run, so reasons belong to columns.

    A row is followed by the columns of the remark, unless all cells of the row with a remark have this one.
    """
    found: dict[str, list[str]] = defaultdict(list)

    def add(line: str, said: list[tuple[str, str]], whole: int = 0) -> None:
        for text in dict.fromkeys(text for _, text in said):
            parts = [part for part, own in said if own == text]
            found[text].append(line if len(parts) == (whole or len(said)) else f"{line}, {', '.join(parts)}")

    reasons_by_column = table.facts and not table.is_of_text
    for column, inside in _by("column", cells).items() if reasons_by_column else ():
        add(column, [(cell.row, cell.reason) for cell in inside if cell.reason])
    for row, inside in _by("row", cells).items():
        for field in ("remark",) if reasons_by_column else ("reason", "remark"):
            add(row, [(cell.column, getattr(cell, field)) for cell in inside if getattr(cell, field)])
        reported = [cell for cell in inside if cell.reported and cell.metric != "neighbours"]
        # The legend explains a dagger, so a note that says only "quoted" needs no remark.
        noted = [cell for cell in reported if cell.note and (not cell.quoted or ";" in cell.note)]
        notes = [(cell.column, f"note on the reported number: {cell.note}") for cell in noted]
        add(row, notes, max(2, len(reported)))
    return found


def _by(field: str, cells: list[Cell]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(getattr(cell, field), []).append(cell)
    return groups


def table_cells(
    declared: Declarations, table: Table, scores: dict[str, TaskScores], corpora: dict[str, str], at_paper_scale: bool = True
) -> list[Cell]:
    """Return all cells of a table, row by row. The arguments are those of TableContext."""
    kind = fact_cells if table.facts else neighbour_cells if table.neighbours else run_cells
    return list(kind(TableContext(declared, table, scores, corpora, at_paper_scale)))


HEADER = [field.name for field in fields(Cell)]


def to_csv(cells: list[Cell]) -> str:
    return csv_files.to_csv(cells, HEADER)


def write_table(name: str, table: Table, cells: list[Cell], reports: Path, setting: str = "") -> str:
    """Write the table as CSV and Markdown. Return the Markdown.

    setting: title of the setting, if its runs are of one.
    """
    markdown = to_markdown(table, cells, setting)
    write_text(reports / f"tables/{name}.csv", to_csv(cells))
    write_text(reports / f"tables/{name}.md", markdown)
    return markdown


MARKS = Marks(escaped, "—", "≠ ", WAYS, quoted="†", suspicious=" ‡", spread=" ± ", italic="*%s*", bold="**%s**")


def to_markdown(table: Table, cells: list[Cell], setting: str = "") -> str:
    """Return title, grid, legend and remarks as Markdown. setting: title of the setting, if its runs are of one."""
    template = _environment(MARKS).get_template("table.md")
    return template.render(table=table, setting=setting, grid=Grid.of(table, cells), remarks=remarks(table, cells))


def _environment(marks: Marks, **delimiters: str) -> jinja2.Environment:
    jinja = environment("reproduction.report", **delimiters)
    jinja.filters |= {"escaped": marks.escaped, "cell": lambda cell: marked(cell, marks)}
    return jinja


ESCAPES = str.maketrans({
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\u2581": r"\_",
})
DELIMITERS = {  # of the template; they have no meaning in LaTeX
    "block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<", "variable_end_string": ">>",
    "comment_start_string": "<#", "comment_end_string": "#>",
}  # fmt: skip
LATEX_MARKS = Marks(
    lambda text: text.translate(ESCAPES),
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
    """Return a `tabular` that needs only the package booktabs, below a comment with the source files of its numbers."""
    runs = dict.fromkeys(run for cell in cells for run in cell.runs.split())
    files = [f"reports/runs/{run if '/' in run else f'{table.task}/{run}'}.json" for run in runs]
    ways = any(cell.direction for cell in cells)
    template = _environment(LATEX_MARKS, **DELIMITERS).get_template("table.tex")
    return template.render(name=name, table=table, grid=Grid.of(table, cells), files=files, ways=ways)
