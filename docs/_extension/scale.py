"""The reports of one scale as the site reads them: Markdown, CSV and JSON files below reports/, and the declarations."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reproduction import paths
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_declarations
from reproduction.papers.table import Table
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.pipeline.jobs import run_sheet
from reproduction.pipeline.parameters_file import load
from reproduction.run_sheet import Sheet


@dataclass(frozen=True)
class TablePage:
    """A table of a paper in one setting. It has a page of the site."""

    file: str  # below reports/tables, without its suffix, such as agg-3-32k
    name: str  # as declared, such as agg-3
    table: Table
    setting: str  # title of the setting; empty for the table that the claims are judged by

    @property
    def page(self) -> str:
        """Name of the page, such as agg/table-3-32k."""
        paper, *_, number = self.name.split("-")
        return f"{paper}/{number if number == 'text' else f'table-{number}'}{self.file.removeprefix(self.name)}"

    @property
    def label(self) -> str:
        """Title in the contents, such as Table 3: Language modelling with AGG."""
        place = self.table.place.split(" (")[0]
        return f"{place[0].upper()}{place[1:]}: {self.table.title}"


@dataclass(frozen=True)
class Scale:
    """A scale: its folder, run sheet, declarations and scores."""

    folder: Path
    sheet: Sheet
    declared: Declarations
    scores: dict[str, TaskScores]

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
    def tables(self) -> list[TablePage]:
        """The tables in the order of the declarations, each followed by those of other settings."""
        found = []
        for name, table in self.declared.tables.items():
            settings = {f"{name}-{setting}": about.title for setting, about in self.declared.settings.items()}
            files = {name: "", **settings}
            found += [
                TablePage(file, name, table, title)
                for file, title in files.items()
                if (self.reports / f"tables/{file}.md").is_file()
            ]
        return found


def _as_scored(sheet: Sheet, scores: Path) -> Sheet:
    """Return the run sheet with the parameter hashes of the score files, so that the site also shows outdated reports."""
    runs = {}
    for task, lines in sheet.runs.items():
        files = {name: scores / task / f"{name}.json" for name in lines}
        found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
        hashes = {name: score.get("parameters_hash", "") for name, score in found.items()}
        runs[task] = {name: line.replaced(parameters_hash=hashes.get(name, "")) for name, line in lines.items()}
    return sheet.replaced(runs=runs)
