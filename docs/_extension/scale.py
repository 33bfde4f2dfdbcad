"""The reports of one scale as the site reads them: CSV and JSON files below reports/, and the declarations."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from raretokens import csv_files, paths
from raretokens.evidence.scores import AllScores, Scores
from raretokens.evidence.verdict import Verdict
from raretokens.papers.declarations import Declarations
from raretokens.papers.load import load_declarations
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import run_sheet
from raretokens.report import claims
from raretokens.report.cells import Cell
from raretokens.report.effect_text import page_text
from raretokens.report.paper_pages import shown_effects
from raretokens.run import Sheet


@dataclass(frozen=True)
class PaperItem:
    """A table, a figure or the running text of a paper. It has a page of the site, which also shows its claims."""

    paper: str
    kind: str  # table, figure or text
    name: str  # as declared, such as agg-3, or agg-figure-2 for a figure
    title: str
    label: str  # such as table 3 (section 5.1)

    @property
    def page(self) -> str:
        """Name of the page in the paper's folder."""
        number = self.name.rsplit("-", 1)[-1]
        return "text" if self.kind == "text" else f"{self.kind}-{number}"


@dataclass(frozen=True)
class Scale:
    """A scale: its folder, run sheet, declarations and scores."""

    folder: Path
    sheet: Sheet
    declared: Declarations
    scores: dict[str, Scores]

    @classmethod
    def read(cls, folder: Path, root: Path) -> "Scale":
        """Read the scale of a folder. `root`: the folder of the code."""
        sheet = _as_scored(run_sheet(load(folder / paths.PARAMETERS)), folder / paths.SCORES)
        declared = load_declarations(root / paths.PAPERS)
        return cls(folder, sheet, declared, AllScores(sheet, folder / paths.SCORES))

    @property
    def name(self) -> str:
        return self.sheet.scale

    @property
    def reports(self) -> Path:
        return self.folder / paths.REPORTS

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Claim -> verdict, from claims.csv."""
        return claims.read_csv(self.reports / "claims.csv", self.declared)

    @cached_property
    def effects(self) -> dict[str, str]:
        """Claim -> its effect as text, for explanations that name other claims."""
        return shown_effects(self.verdicts.values(), self.declared, page_text)

    def cells(self, table: str) -> list[Cell]:
        """Return the cells of a table, from its CSV file."""
        return [Cell(**row) for row in csv_files.read_csv(self.reports / f"tables/{table}.csv").to_dict("records")]

    @cached_property
    def papers(self) -> dict[str, list[PaperItem]]:
        """Paper with tables of its own -> its items in this order: tables, figures, running text."""
        tables, figures = self.declared.tables, self.declared.figures
        items = [
            PaperItem(one.paper, "text" if one.is_of_text else "table", name, one.title, one.place)
            for name, one in tables.items()
        ]
        items += [PaperItem(one.paper, "figure", name, one.title, one.place) for name, one in figures.items()]
        items.sort(key=lambda item: ("table", "figure", "text").index(item.kind))
        papers = dict.fromkeys(table.paper for table in tables.values())
        return {paper: [item for item in items if item.paper == paper] for paper in papers}

    def home(self, verdict: Verdict) -> PaperItem | None:
        """Return the item whose page shows a claim, or None if the paper has no item.

        The item is the claim's first table, else its first figure, else the running text, else the paper's first item.
        """
        items = {item.name: item for item in self.papers.get(verdict.claim.paper, [])}
        start = verdict.claim.paper.lower()
        named = [f"{start}-{number}" for number in verdict.claim.tables]
        named += [f"{start}-figure-{number}" for number in verdict.claim.figures] + [f"{start}-text"]
        return next((items[name] for name in named if name in items), next(iter(items.values()), None))


def _as_scored(sheet: Sheet, scores: Path) -> Sheet:
    """Return the run sheet with the parameter hashes of the score files, so that the site also shows outdated reports."""
    runs = {}
    for task, lines in sheet.runs.items():
        files = {name: scores / task / f"{name}.json" for name in lines}
        found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
        hashes = {name: score.get("parameters_hash", "") for name, score in found.items()}
        runs[task] = {name: line.replaced(parameters_hash=hashes.get(name, "")) for name, line in lines.items()}
    return sheet.replaced(runs=runs)
