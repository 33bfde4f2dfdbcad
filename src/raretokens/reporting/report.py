"""All reports of a scale, from its score files and the declarations."""

import json
import shutil
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.evidence import methods
from raretokens.evidence.judging import judge_all
from raretokens.evidence.run_sheet import Sheet
from raretokens.evidence.scores import Scores, all_scores
from raretokens.evidence.verdict import in_words, to_csv
from raretokens.files import write_text
from raretokens.papers.declarations import Declarations
from raretokens.papers.table import Table
from raretokens.reporting import method_tables
from raretokens.reporting.cells import needs
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.cells.table_cells import table_cells
from raretokens.reporting.claim_tables import counts as verdict_counts
from raretokens.reporting.claim_tables import headline, main_claims, to_markdown
from raretokens.reporting.figures.panel_points import figure_points
from raretokens.reporting.figures.write import write_figure
from raretokens.reporting.page.browser_page import page
from raretokens.reporting.series import curves_of_all_runs
from raretokens.reporting.summary import summary
from raretokens.reporting.tables.table_files import write_table
from raretokens.reporting.templating import environment


def write(sheet: Sheet, declared: Declarations, reports: Path) -> str:
    """Write tables, figures, claims, index (Markdown and HTML) and headline numbers; returns the verdict counts in words."""
    scores = all_scores(sheet, reports / "runs")
    cells = _write_tables(sheet, declared, scores, _emptied(reports / "tables"))
    _write_figures(declared, scores, _emptied(reports / "figures"))
    _write_plots(scores, reports / "curves", _emptied(reports / "plots"))
    verdicts = judge_all(declared, scores)
    write_text(reports / "claims.csv", to_csv(verdicts))
    write_text(reports / "claims.md", to_markdown(verdicts, declared))
    write_text(reports / "verdicts.csv", verdict_counts(verdicts))
    write_text(reports / "main.csv", main_claims(declared, verdicts))
    compared = methods.changes(declared, scores)
    write_text(reports / "methods.csv", methods.to_csv(compared))
    write_text(reports / "methods.md", method_tables.to_markdown(compared))
    counts = in_words(verdicts)
    overview = summary(sheet, declared, cells, scores, counts)
    write_text(reports / "index.md", _index(overview))
    write_text(
        reports / "index.html",
        page(overview, declared, cells, verdicts, scores, method_tables.tables(compared), reports),
    )
    write_text(reports / "headline.json", json.dumps(headline(declared, verdicts), indent=1) + "\n")
    return counts


def one_table(name: str, sheet: Sheet, declared: Declarations, reports: Path) -> str:
    """Write the files of one table; returns its Markdown."""
    table = declared.table(name)
    cells = _cells(table, sheet, declared, all_scores(sheet, reports / "runs"))
    return write_table(name, table, cells, reports / "tables")


def needed(name: str, sheet: Sheet, declared: Declarations, reports: Path) -> list[str]:
    """DVC targets of a table. Raises UserError where there are none: DVC would take that for all."""
    targets = needs.targets(declared.table(name), all_scores(sheet, reports / "runs"))
    if not targets:
        raise UserError(f"{name}: no run of this table is on the run sheet")
    return targets


def _write_tables(
    sheet: Sheet, declared: Declarations, scores: dict[str, Scores], folder: Path
) -> dict[str, list[Cell]]:
    cells = {name: _cells(table, sheet, declared, scores) for name, table in declared.tables.items()}
    for name, table in declared.tables.items():
        write_table(name, table, cells[name], folder)
    return cells


def _cells(table: Table, sheet: Sheet, declared: Declarations, scores: dict[str, Scores]) -> list[Cell]:
    return table_cells(declared, table, scores, sheet.corpora, declared.is_printed(sheet.scale, sheet.corpora))


def _write_figures(declared: Declarations, scores: dict[str, Scores], folder: Path) -> None:
    for name, figure in declared.figures.items():
        write_figure(figure_points(figure, scores, declared), folder, name)


def _write_plots(scores: dict[str, Scores], curves: Path, folder: Path) -> None:
    for task, part in scores.items():
        write_text(folder / f"{task}.csv", curves_of_all_runs(part, curves / task))


def _index(overview: dict[str, Any]) -> str:
    jinja = environment("raretokens.reporting", autoescape=False, keep_trailing_newline=True)  # Markdown, not HTML
    return jinja.get_template("index.md").render(overview)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
