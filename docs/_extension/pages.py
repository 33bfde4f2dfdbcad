"""Pages of the site with the reports of a scale, written as MyST Markdown below docs/results/, which git ignores.

A page is the Markdown of a report with its links adjusted. Tables that only the site has are made from CSV files.
"""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from _extension.charts import changes_chart, curves_chart, curves_of
from _extension.runs import RunView, common_signatures, run_views
from _extension.scale import Scale, TablePage
from raretokens import csv_files
from raretokens.files import write_text
from reproduction.papers.setting import TASKS
from reproduction.report.markdown import environment

LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")  # a relative link target in Markdown
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)  # a Markdown table
OWN = {name: name for name in ("index.md", "methods.md", "decomposition.md")}  # file of the reports -> page
SOURCES = ["row", "column", "measured", "spread", "reported", "delta", "status", "runs", "metric", "notes"]
CHANGES = ["task", "run", "title", "kind", "measured", "verdict", "seeds", "low", "high"]
MEASURED = """## All measured changes

Each run is compared with maximum likelihood of the same model, text and seeds. In a chart, a line is the 95 % interval over seeds
and test sets. Grey diamonds are inconclusive or not testable. A green tick is the ratio that the logit-bias baseline reaches, or
an upper bound of that ratio. Choose a metric in the menu.
"""


def write_changed(page: Path, text: str) -> None:
    """Write a page unless it has this text, so that Sphinx reads only changed pages again."""
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        write_text(page, text)


@dataclass
class Pages:
    """The pages of a scale in a folder of docs/."""

    scale: Scale
    folder: Path
    files: str  # address of the code, relative to the top of the site, or absolute if the site is published
    root: Path
    is_first: bool = True  # list the papers in the contents of the site instead of below the overview
    written: dict[Path, str] = field(default_factory=dict)

    def write(self) -> None:
        """Write all pages that changed, and delete obsolete pages."""
        papers = [path.stem for path in sorted((self.scale.reports / "papers").glob("*.md"))]
        self._runs()
        for paper in papers:
            tables = [one for one in self.scale.tables if one.page.startswith(f"{paper}/")]
            page = _page(f"papers/{paper}.md")
            text = self._report(f"papers/{paper}.md", page)
            if paper not in ("main", "medians"):  # parts of README
                main = [one for one in tables if not one.setting]
                self._add(page, _wrapped(text, "filtered") if paper == "claims" else text, main)
            for table in tables:
                self._table(table)
        self._add("decomposition.md", self._report("decomposition.md", "decomposition.md"))
        self._methods()
        pages = [page for page in self.written if page.parent == self.folder or page.name == "index.md"]
        contents = [] if self.is_first else [str(page.relative_to(self.folder)) for page in pages]
        self._add("index.md", self._report("index.md", "index.md"), contents)
        for page, text in self.written.items():
            write_changed(page, text)
        for page in set(self.folder.rglob("*.md")) - set(self.written):
            page.unlink()

    def _add(self, page: str, text: str, contents: Iterable[TablePage | str] = ()) -> None:
        """Add a page of the full width, with the pages of `contents` below it."""
        lines = []
        for one in contents:
            label = "" if isinstance(one, str) else one.setting or one.label
            target = os.path.relpath(one if isinstance(one, str) else one.page, Path(page).parent)
            lines.append(f"{label} <{target}>" if label else target)
        tree = "\n".join(["", "```{toctree}", ":hidden:", "", *lines, "```", ""]) if lines else ""
        self.written[self.folder / page] = f"---\nhide-toc: true\n---\n{text.rstrip()}\n{tree}"

    def _report(self, name: str, page: str) -> str:
        """Return Markdown of the reports with its links adjusted to a page. Empty if there is no such file."""
        source = self.scale.reports / name
        text = source.read_text(encoding="utf-8") if source.is_file() else ""
        return LINK.sub(lambda link: self._moved(source.parent / link[1], (self.folder / page).parent), text)

    def _moved(self, target: Path, here: Path) -> str:
        """Return a link from a folder of the site to a file of the reports, or to the page that shows the file."""
        path = Path(os.path.normpath(target))
        inside = path.relative_to(self.scale.reports) if path.is_relative_to(self.scale.reports) else Path()
        kind, *others = inside.parts or ("",)
        pages = {f"tables/{one.file}.md": f"{one.page}.md" for one in self.scale.tables} | OWN
        page = pages.get(str(inside)) or (_page(str(inside)) if kind == "papers" and inside.suffix == ".md" else "")
        if kind == "runs" and len(others) < 3 and others[0] in TASKS:
            page = f"runs/{others[0]}.md" + (f"#run-{inside.stem}" if len(others) == 2 else "")
        return os.path.relpath(self.folder / page if page else path, here)

    def _table(self, one: TablePage) -> None:
        """Write the page of a table: its Markdown, its claims, and the sources of its cells."""
        page = f"{one.page}.md"
        others = [other for other in self.scale.tables if other.name == one.name and other != one]
        links = [f"[{other.setting or 'the setting of the claims'}]({Path(other.page).name}.md)" for other in others]
        declared = self.scale.declared.claims
        number = one.name.rsplit("-", 1)[-1]
        of_paper = {name: claim for name, claim in declared.items() if claim.paper == one.table.paper}
        own = [name for name, claim in of_paper.items() if number in map(str, claim.tables)]
        claims = csv_files.read_csv(self.scale.reports / "claims.csv").set_index("claim")
        cells = csv_files.read_csv(self.scale.reports / f"tables/{one.file}.csv")
        cells = cells[cells.status != ""]
        notes = cells[["reason", "remark", "note"]].apply(lambda row: "; ".join(filter(None, row)), axis=1)
        runs = [self._run_links(one.table.task, names, "../") for names in cells.runs]
        text = _environment().get_template("table.md").render(
            title=f"{one.table.paper} {one.label[0].lower()}{one.label[1:]}",
            text=_wrapped(self._report(f"tables/{one.file}.md", page), "grid"),
            csv=os.path.relpath(self.scale.reports / f"tables/{one.file}.csv", (self.folder / page).parent),
            others=links,
            claims={name: claims.loc[name] for name in own if name in claims.index},
            sources=_html(cells.assign(notes=notes)[SOURCES], "paged", runs=runs),
        )
        self._add(page, text, [] if one.setting else [other for other in others if other.setting])

    def _methods(self) -> None:
        """Write the page of methods, with charts and a table of all measured changes."""
        changes = csv_files.read_csv(self.scale.reports / "methods.csv")
        runs = [self._run_links(task, run, "") for task, run in zip(changes.task, changes.run, strict=True)]
        charts = [
            f"### {TASKS[task].title}: {'ratios' if kind == 'ratio' else 'differences'}\n\n{_chart(changes_chart(rows))}"
            for (task, kind), rows in changes.groupby(["task", "kind"], sort=False)
        ]
        table = f"### Table\n\n{_html(changes[CHANGES], 'filtered', run=runs)}"
        self._add("methods.md", "\n".join([self._report("methods.md", "methods.md"), MEASURED, *charts, table]))

    def _run_links(self, task: str, runs: str, top: str) -> str:
        """Return links to runs, whose names may contain their own task, such as lm/mle. A run without scores has no link.

        `top`: path of the folder of the scale.
        """
        links = []
        for run in runs.split():
            own, name = f"{task}/{run}".split("/")[-2:]
            is_scored = (self.scale.reports / f"runs/{own}/{name}.json").is_file()
            links.append(f'<a href="{top}runs/{own}.html#run-{name}">{escape(run)}</a>' if is_scored else escape(run))
        return " ".join(links)

    def _runs(self) -> None:
        """Write a page for each task with its runs, and a list of these pages."""
        views = run_views(self.scale)
        titles = [f"* [{TASKS[task].title}]({task}.md)" for task in views]
        about = "Each page lists the trained models of one task: parameters, curves, and every score with its signature."
        self._add("runs/index.md", "\n".join(["# Runs", "", about, "", *titles]), [f"runs/{task}" for task in views])
        reports = self.scale.reports.relative_to(self.root)
        below = "" if "://" in self.files else "../" * 3
        for task, runs in views.items():
            metrics = common_signatures(runs)
            models = {name: run.name for run in runs for name in run.runs}
            curves = curves_of(self.scale.reports / f"plots/{task}.csv", models)
            text = _environment().get_template("task.md").render(
                task=task,
                title=TASKS[task].title,
                runs=runs,
                overview=_overview([run for run in runs if not run.is_data]),
                metrics=_html(pd.DataFrame([metric.as_row for metric in metrics]), "paged"),
                usual={metric.path: metric.signature for metric in metrics},
                curves=_chart(curves_chart(*curves)) if curves else "",
                reports=os.path.relpath(self.scale.reports, self.folder / "runs"),
                files=f"{below}{self.files}{reports}/",
            )
            self._add(f"runs/{task}.md", text)


def _overview(runs: list[RunView]) -> str:
    """Return a table of the models of a task: objective, seeds, main numbers and training time."""
    rows = pd.DataFrame([run.as_row for run in runs])
    return _html(rows, "paged", run=[f'<a href="#run-{run.name}">{run.name}</a>' for run in runs]) if runs else ""


def _chart(specification: dict[str, Any]) -> str:
    """Return a place where site.js draws a Vega-Lite specification."""
    script = f'<script type="application/json">{json.dumps(specification)}</script>'
    return f'```{{raw}} html\n<div class="chart">{script}</div>\n```\n'


def _page(report: str) -> str:
    """Return the page of a file papers/<name>.md."""
    name = Path(report).stem
    return f"{name}.md" if name in ("claims", "later") else f"{name}/index.md"


def _wrapped(text: str, kind: str) -> str:
    """Return Markdown with its tables in containers of a class that site.js looks for: filtered, paged or grid."""
    return TABLE.sub(lambda found: f"::::{{container}} {kind}\n\n{found[0]}\n::::\n", text)


def _html(cells: pd.DataFrame, kind: str, **links: Iterable[str]) -> str:
    """Return cells as an HTML table in an element of a class that site.js looks for. `links`: columns that are HTML."""
    shown = cells.map(lambda text: escape(str(text))).assign(**{name: list(column) for name, column in links.items()})
    table = shown.to_html(index=False, escape=False, border=0, classes="long")
    return f'```{{raw}} html\n<div class="{kind}">\n{table}\n</div>\n```\n'


def _environment() -> Any:
    jinja = environment("_extension", lstrip_blocks=True)
    jinja.filters["e"] = lambda text: escape(str(text))
    return jinja
