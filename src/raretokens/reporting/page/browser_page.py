"""All reports as one page for a browser, which needs no network and no other file."""

from collections import Counter
from pathlib import Path
from typing import Any

from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import VERDICTS, Verdict
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import HEADLINES
from raretokens.reporting import method_tables
from raretokens.reporting.cells.cell import Cell
from raretokens.reporting.page import (
    clearest,
    evidence,
    figure_sections,
    glossary,
    metric_groups,
    run_sections,
    table_sections,
)
from raretokens.reporting.tables.table_markdown import WAYS
from raretokens.reporting.templating import environment

MARKS = {
    "match": "✓",
    "differs": "≠",
    "other scale": "·",
    "ours only": "○",
    "quoted": "†",
    "not run": "—",
}  # a shape, for who sees no colour


def page(
    summary: dict[str, Any],
    declared: Declarations,
    cells: dict[str, list[Cell]],
    verdicts: list[Verdict],
    scores: dict[str, Scores],
    compared: dict[str, method_tables.Table],
    reports: Path,
) -> str:
    """The page; summary is what index.md shows. Figures are taken from reports/figures, so they are written before.

    Times of training come from data/scratch and trained.csv beside the reports, where there are any: no outputs of the pipeline.
    """
    tables = [table_sections.section(name, declared, inside) for name, inside in cells.items()]
    runs = run_sections.sections(declared, scores, reports.parent)
    explained = {task: _explained(runs, task) for task in scores}
    for run in runs:
        for score in run["scores"]:
            score["is_own"] = score["signature"] != explained[run["task"]][score["path"]]["signature"]
    jinja = environment("raretokens.reporting.page", autoescape=True, lstrip_blocks=True)
    terms = glossary.read()
    jinja.filters["hover"] = lambda text: glossary.hover(text, terms)
    return jinja.get_template("page.html").render(
        **summary,
        glossary=terms,
        marks=MARKS,
        ways=WAYS,
        way_counts=Counter(cell.direction for inside in cells.values() for cell in inside if cell.direction),
        verdict_names=VERDICTS,
        verdict_counts=Counter(verdict.verdict for verdict in verdicts),
        papers_counts=Counter(verdict.verdict for verdict in verdicts if not verdict.is_ours),
        cell_counts=Counter(cell.status for inside in cells.values() for cell in inside if cell.status),
        papers=list(dict.fromkeys(table["paper"] for table in tables)),
        families=table_sections.families(tables),
        page_tables=tables,
        page_figures=[figure_sections.section(figure, reports / "figures") for figure in summary["figures"]],
        claims=evidence.sections(declared, verdicts, scores),
        methods=compared,
        clearest=clearest.clearest(declared, verdicts),
        page_runs=runs,
        explained=explained,
        groups=metric_groups.GROUPS,
        glance={task: _columns(names, summary["headline"]) for task, names in summary["runs"].items()},
    )


def _explained(runs: list[dict[str, Any]], task: str) -> dict[str, dict[str, Any]]:
    """Metric -> what it is."""
    return {line["path"]: line for line in metric_groups.explained([run for run in runs if run["task"] == task])}


def _columns(names: list[str], headline: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Headline numbers that any of the runs has."""
    known = {short for name in names for short in headline.get(name, {})}
    return {short: number for short, number in HEADLINES.items() if short in known}
