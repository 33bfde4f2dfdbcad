"""Pages of the site with the reports of a scale, written as MyST Markdown below docs/results/, which git ignores."""

import json
import os
import re
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from html import escape
from pathlib import Path
from typing import Any

import jinja2

from _extension.charts import curves_chart, curves_of, loss_chart
from _extension.scale import PaperItem, Scale
from _extension.views import ClaimView, RunView, common_signatures, run_views
from raretokens import csv_files
from raretokens.files import write_text
from raretokens.papers.task_names import TASKS
from raretokens.report.cells import Cell, reported_counts
from raretokens.report.figures import picture_kind
from raretokens.report.markdown import environment
from raretokens.report.tables import WAYS, Grid, Marks, marked, remarks

MARKS = Marks(
    escape, "—", "≠ ", WAYS, quoted="†", suspicious="‡", spread=" ± ", italic="<em>%s</em>", bold="<strong>%s</strong>"
)
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")  # a relative link target in Markdown


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
    written: dict[Path, str] = field(default_factory=dict)
    is_first: bool = True  # list the papers in the contents of the site instead of below the overview

    def write(self) -> None:
        """Write all pages that changed, and delete obsolete pages."""
        self._overview()
        for paper, items in self.scale.papers.items():
            self._paper(paper, items)
            for item in items:
                self._item(item)
        self._claims()
        self._numbers()
        self._methods()
        self._runs()
        for page, text in self.written.items():
            write_changed(page, text)
        for page in set(self.folder.rglob("*.md")) - set(self.written):
            page.unlink()

    def _add(self, page: str, template: str, **values: Any) -> None:
        """Render a page with these values. Links in the values are relative to the page."""
        path = self.folder / f"{page}.md"
        top = "../" * page.count("/")
        below = "../" * (page.count("/") + 2) if "://" not in self.files else ""
        self.written[path] = _environment().get_template(f"{template}.md").render(
            top=top,
            scale=self.scale.name,
            reports=os.path.relpath(self.scale.reports, path.parent),
            files=f"{below}{self.files}{self.scale.reports.relative_to(self.root)}/",
            run_link=partial(run_link, top=top),
            **values,
        )

    def _own_text(self, name: str, page: str) -> str:
        """Return Markdown of the reports with its links adjusted to a page. Empty if there is no such file."""
        source = self.scale.reports / name
        if not source.is_file():
            return ""
        text = source.read_text(encoding="utf-8")
        here = (self.folder / page).parent
        return LINK.sub(lambda link: self._moved(source.parent / link[1], here), text)

    def _moved(self, target: Path, here: Path) -> str:
        """Return a link from a folder of the site to a file of the reports, or to the page that shows the file."""
        path = Path(os.path.normpath(target))
        for item in (item for items in self.scale.papers.values() for item in items):
            if path in (self.scale.reports / f"tables/{item.name}.md", self.scale.reports / f"figures/{item.name}.md"):
                return os.path.relpath(self.folder / item.paper.lower() / f"{item.page}.md", here)
        own = ("methods.md", "decomposition.md", "reproducibility.md", "index.md")
        known = {name: name for name in own} | {"papers/later.md": "later.md"}
        known |= {f"papers/{paper.lower()}.md": f"{paper.lower()}/index.md" for paper in self.scale.papers}
        inside = str(path.relative_to(self.scale.reports)) if path.is_relative_to(self.scale.reports) else ""
        return os.path.relpath(self.folder / known[inside] if inside in known else path, here)

    @cached_property
    def _claim_views(self) -> dict[str, ClaimView]:
        return {name: ClaimView.of(verdict, self.scale) for name, verdict in self.scale.verdicts.items()}

    @cached_property
    def _run_views(self) -> dict[str, list[RunView]]:
        return run_views(self.scale)

    def _of_paper(self, paper: str) -> list[ClaimView]:
        return [view for view in self._claim_views.values() if view.claim.paper == paper]

    def _of_item(self, item: PaperItem) -> list[ClaimView]:
        return [view for name, view in self._claim_views.items() if self._homes[name] == item]

    @cached_property
    def _homes(self) -> dict[str, PaperItem | None]:
        return {name: self.scale.home(verdict) for name, verdict in self.scale.verdicts.items()}

    @cached_property
    def _claim_pages(self) -> dict[str, str]:
        """Claim -> its page, relative to the folder of the scale."""
        return {name: f"{home.paper.lower()}/{home.page}" if home else "later" for name, home in self._homes.items()}

    def _overview(self) -> None:
        scale, declared = self.scale, self.scale.declared
        counts = [self.scale.reports / "verdicts.csv", self.scale.reports / "other-verdicts.csv"]
        cells = {name: scale.cells(name) for name in declared.tables}
        own = {name: figure for name, figure in declared.figures.items() if figure.paper not in scale.papers}
        self._add(
            "index",
            "overview",
            nested=not self.is_first,
            about=declared.scales.get(scale.name),
            papers=scale.papers,
            counts=[csv_files.read_csv(file) for file in counts if file.is_file()],
            findings=self._own_text("findings.md", "index.md"),
            reported=reported_counts(declared, cells),
            runs=self._run_views,
            tasks=TASKS,
            figures={name: (figure, picture_kind(figure.panels)) for name, figure in own.items()},
            forest=(self.scale.reports / "forest.svg").is_file(),
            missing=[
                f"{task}/{run}" for task, part in scale.scores.items() for run in part.lines if not part.read(run)
            ],
        )

    def _paper(self, paper: str, items: list[PaperItem]) -> None:
        name = paper.lower()
        rows = [(item, self._of_item(item)) for item in items]
        pages = {claim: os.path.relpath(page, name) for claim, page in self._claim_pages.items()}
        head, *_ = self._own_text(f"papers/{name}.md", f"{name}/index.md").partition("\n## ")
        about = self.scale.declared.papers.get(paper)
        shown = next((item for item in items if about and item.name == about.figure), None)
        self._add(
            f"{name}/index",
            "paper",
            paper=paper,
            items=rows,
            head=head,
            claims=self._of_paper(paper),
            pages=pages,
            figure=shown,
            kind=picture_kind(self.scale.declared.figures[shown.name].panels) if shown else "",
        )

    def _item(self, item: PaperItem) -> None:
        declared, page = self.scale.declared, f"{item.paper.lower()}/{item.page}"
        claims = self._of_item(item)
        if item.kind == "figure":
            figure = declared.figures[item.name]
            self._add(page, "figure", item=item, figure=figure, kind=picture_kind(figure.panels), claims=claims)
            return
        table, cells = declared.tables[item.name], self.scale.cells(item.name)
        grid = Grid.of(table, cells)
        metrics = {cell.column: declared.known_metric(cell.metric) for cell in reversed(cells)}
        self._add(
            page,
            "table",
            item=item,
            table=table,
            grid=grid,
            heads=[(title, _head_note(metrics[title], table.token)) for title in grid.columns],
            cells=[cell for cell in cells if cell.status],
            remarks=remarks(table, cells),
            claims=claims,
        )

    def _claims(self) -> None:
        papers = list(dict.fromkeys(view.claim.paper for view in self._claim_views.values()))
        self._add("claims", "claims", claims=[*self._claim_views.values()], pages=self._claim_pages)
        later = {paper: self._of_paper(paper) for paper in papers if paper not in self.scale.papers}
        self._add("later", "later", papers=later)

    def _numbers(self) -> None:
        """Write the page of all reported numbers, each with the measured number."""
        rows = [
            (item, cell)
            for items in self.scale.papers.values()
            for item in items
            if item.kind != "figure"
            for cell in self.scale.cells(item.name)
            if cell.reported and cell.status
        ]
        self._add("numbers", "numbers", rows=rows)

    def _methods(self) -> None:
        rows = csv_files.read_csv(self.scale.reports / "methods.csv").to_dict("records")
        self._add("methods", "methods", text=self._own_text("methods.md", "methods.md"), rows=rows)
        for name in ("decomposition", "reproducibility"):
            self._add(name, name, text=self._own_text(f"{name}.md", f"{name}.md"))

    def _runs(self) -> None:
        self._add("runs/index", "runs", tasks={task: TASKS[task].title for task in self._run_views})
        for task, runs in self._run_views.items():
            charts = {run.name: json.dumps(loss_chart(run.loss)) for run in runs if run.loss}
            metrics = common_signatures(runs)
            curves = curves_of(self.scale.reports / f"plots/{task}.csv", {name: run.name for run in runs for name in run.runs})
            self._add(
                f"runs/{task}",
                "task",
                task=task,
                title=TASKS[task].title,
                runs=runs,
                metrics=metrics,
                usual={metric.path: metric.signature for metric in metrics},
                charts=charts,
                curves=json.dumps(curves_chart(*curves)) if curves else "",
            )


def run_link(task: str, run: str, top: str) -> str:
    """Return an HTML link to a run. The name may contain its own task, such as lm/mle."""
    own, _, name = run.rpartition("/")
    return f'<a href="{top}runs/{own or task}.html#run-{name}">{escape(run)}</a>'


def _head_note(metric: Any, token: str) -> str:
    if metric is None:
        return ""
    return f"{metric.title} ({metric.unit_of(token)}); {metric.better} is better"


def shown(cell: Cell | None) -> str:
    """Return a cell as HTML, with the reported number in parentheses in a separate element."""
    text = marked(cell, MARKS)
    number, between, reported = text.partition(" (")
    if cell is None or not cell.reported or not between:
        return text
    return f'{number} <span class="reported">({reported}</span>'


@cache
def _environment() -> jinja2.Environment:
    jinja = environment("_extension", lstrip_blocks=True)
    jinja.filters |= {"shown": shown, "e": lambda text: escape(str(text))}
    return jinja
