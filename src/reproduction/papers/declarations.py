"""All declarations of data/paper: metrics, scales, and the numbers that the papers report, one per line of <table>.csv."""

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from raretokens import csv_files
from raretokens.errors import UserError, nearest
from raretokens.schema import Section
from reproduction.papers.claim import Claim, Precondition
from reproduction.papers.setting import Properties, Setting, TaskName
from reproduction.papers.table import Figure, Table


class Tolerance(Section):
    """The largest allowed difference of two numbers. If both bounds are set, the wider bound counts."""

    rel: float | None = Field(None, description="relative tolerance, as a share of the older number")
    abs: float | None = Field(None, description="absolute tolerance, in the unit of the metric")

    @property
    def bound(self) -> str:
        return " or ".join(f"{value:g} {kind}" for kind, value in self.model_dump().items() if value) or "exact"

    def allows(self, before: float, after: float) -> bool:
        """Whether the difference of two numbers is within the tolerance."""
        return abs(after - before) <= max(self.abs or 0.0, (self.rel or 0.0) * abs(before)) + 1e-12


MetricKind = Literal["perplexity", "geometry", "text", "translation", "similarity", "classification"]
EXACT = Tolerance(abs=0.0)  # for values that do not depend on training
ANY = Tolerance(abs=float("inf"))  # any value, as long as there is a value


class Metric(Section):
    """How to show and compare a metric: data/paper/metrics.yaml."""

    title: str = Field(description="name of the metric for readers")
    unit: str = Field(description="unit of the number and of differences")
    digits: int = Field(description="digits after the decimal point")
    direction: Literal["up", "down"] = Field(description="direction of better values")
    kind: MetricKind | None = Field(
        None, description="kind of metric; the claims of a paper on one kind are a family, for which q is computed"
    )
    match: Tolerance = Field(description="tolerance for one run at the paper's scale against the reported number")
    drift: Tolerance = Field(description="tolerance of the report diff, for the same code on another machine")
    drifts: dict[TaskName, Tolerance] = Field(
        {}, description="task -> drift, for tasks whose training amplifies rounding differences"
    )
    columns: dict[str, str] = Field(
        {}, description="list of columns.yaml -> title of the column that is appended to the list"
    )

    @property
    def better(self) -> Literal["higher", "lower"]:
        return "higher" if self.direction == "up" else "lower"

    def drift_of(self, task: str) -> Tolerance:
        return self.drifts.get(task, self.drift)

    def text(self, number: float | None) -> str:
        """Format a number with the digits of the metric. Empty without a number."""
        return "" if number is None else f"{number:.{self.digits}f}"


class Scale(Section):
    """What readers should know about the reports of a scale: data/paper/scales.yaml."""

    corpora: dict[TaskName, str] = Field(
        description="task -> corpus; reports print these remarks only for these corpora"
    )
    reported: bool = Field(
        False,
        description="whether models and texts are those of the papers, so that numbers may match the reported ones",
    )
    text: str = Field(description="description of the texts")
    shows: str = Field(description="conclusions that the reports of this scale support")
    hides: str = Field(description="conclusions that the reports of this scale do not support")


class Paper(Section):
    """A reproduced paper: data/paper/papers.yaml."""

    title: str = Field(description="full title")
    authors: str = Field(description="authors and year")
    url: str = Field(description="address of the paper")
    claim: str = Field(description="claim of the paper, in one sentence")
    later: bool = Field(False, description="whether reports count its conclusions and numbers apart, as of a later paper")


class Method(Section):
    """What readers should know about an objective: data/paper/methods.yaml."""

    does: str = Field(description="effect of the objective, in one sentence")
    choose: str = Field(description="advice on when to choose it, in one sentence")


class Search(Section):
    """How options of runs were chosen, where the repository documents it: data/paper/searches.yaml."""

    objectives: list[str] = Field([], description="objectives of the runs; default: all")
    tasks: list[TaskName] = Field([], description="tasks of the runs; default: all")
    models: list[str] = Field([], description="model configs of the runs; default: all")
    options: list[str] = Field([], description="options of the run lines that the entry explains")
    bounds: str = Field("", description="bounds of the search, or none; default: not recorded")
    trials: int | None = Field(None, description="number of tried values; default: not recorded")
    rule: str = Field("", description="selection rule; default: not recorded")
    source: str = Field(description="file of the repository that documents the choice")


COLUMNS = ["row", "column", "group", "value", "note"]
NUMBER = re.compile(r"(?P<digits>[\d.]+(?:e-?\d+)?)(?P<unit>[kKM]| million)?")
UNITS = {None: 1.0, "k": 1e3, "K": 1e3, "M": 1e6, " million": 1e6}


def number(text: str) -> float | None:
    """Return a reported number, which may have a unit (24M), or None if the text is not a number."""
    found = NUMBER.fullmatch(text)
    try:
        return float(found["digits"]) * UNITS[found["unit"]] if found else float(text)
    except ValueError:
        return None


def is_quoted(note: str) -> bool:
    """Whether the paper quotes the number from another paper."""
    return note.startswith("quoted")


def is_suspicious(note: str) -> bool:
    """Whether the number cannot be right, alone or together with another reported number."""
    return note.startswith("suspicious")


@dataclass(frozen=True)
class Reported:
    """A cell of a table of a paper, as the paper reports it."""

    text: str  # may be a word (nearest neighbours) or empty (a dash in the paper)
    note: str
    key: str = ""  # row > column > group; empty where the paper has no such cell

    @property
    def value(self) -> float | None:
        return number(self.text)


NOTHING = Reported("", "")


class ReportedTable:
    """Cells of a reported table by (row, column, group)."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.csv"
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file; a table or a claim names it")
        found = csv_files.read_csv(self.path)
        if missing := [name for name in COLUMNS if name not in found]:
            raise UserError(f"{self.path}: no column {', '.join(missing)}; needed are {', '.join(COLUMNS)}")
        lines = found[COLUMNS].itertuples(index=False, name=None)
        self.cells = {
            (row, column, group): Reported(value, note, " > ".join((row, column, group)))
            for row, column, group, value, note in lines
        }
        self.rows = list(dict.fromkeys(row for row, _, _ in self.cells))

    def get(self, row: str, column: str | None, group: str | None) -> Reported | None:
        """Return a cell, or None if the column is None or the row is unknown. A group of None is an empty one.

        Raises:
            UserError: if the table has no such column and group.
        """
        if column is None:
            return None
        group = group or ""
        if not any(key[1:] == (column, group) for key in self.cells):
            known = sorted({" / ".join(key[1:]) for key in self.cells})
            raise UserError(f"{self.path}: no column {column} / {group}; it has {', '.join(known)}")
        return self.cells.get((row, column, group))

    def mean(self, row: str, column: str, group: str) -> float | None:
        """Return the reported number. For the group `*`, return the mean over all groups of that row and column."""
        if group != "*":
            cell = self.get(row, column, group)
            if cell is None:
                raise UserError(f"{self.path}: no row {row!r}; it has {', '.join(self.rows)}")
            return cell.value
        values = (cell.value for key, cell in self.cells.items() if key[:2] == (row, column))
        numbers = [value for value in values if value is not None]
        return sum(numbers) / len(numbers) if numbers else None


class Declarations(Section):
    """Metrics, tables, claims, preconditions, figures and scales by name."""

    folder: Path  # data/paper, which also contains the reported numbers
    metrics: dict[str, Metric]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    preconditions: dict[str, Precondition] = {}
    figures: dict[str, Figure]
    scales: dict[str, Scale]
    papers: dict[str, Paper]
    methods: dict[str, Method] = {}
    settings: dict[str, Setting] = {}  # of each task the nearest to the paper's first
    settings_scale: str = ""  # the scale that has these settings
    reported_settings: dict[TaskName, Properties] = {}
    _reported: dict[Path, ReportedTable] = PrivateAttr(default_factory=dict)  # each file is read once

    def reported(self, name: str) -> ReportedTable:
        """Return the reported numbers of a file of the folder."""
        path = self.folder / name
        if path not in self._reported:
            self._reported[path] = ReportedTable(self.folder, name)
        return self._reported[path]

    def of_scale(self, scale: str) -> Self:
        """Return the declarations for a scale: without settings, if these are of another one."""
        return self if scale == self.settings_scale else self.replaced(settings={})

    @property
    def counted_papers(self) -> list[str]:
        """The papers whose conclusions and numbers the reports count: all of papers.yaml but the later ones."""
        return [name for name, paper in self.papers.items() if not paper.later]

    def is_counted(self, table: Table) -> bool:
        """Whether reports count the numbers of a table. Those of a later paper are left out."""
        paper = self.papers.get(table.paper)
        return not (paper and paper.later)

    def runs(self, task: str) -> set[str]:
        """Return the names of the runs of a task in all figures, and in all tables but those of later papers."""
        in_tables = (table.runs for table in self.tables.values() if table.task == task and self.is_counted(table))
        return set().union(*in_tables, *(figure.runs(task) for figure in self.figures.values()))

    def is_paper_scale(self, scale: str, corpora: dict[str, str]) -> bool:
        """Whether a scale has the papers' model configs and texts. At other scales no number can match the reported number."""
        about = self.scales.get(scale)
        return bool(about and about.reported and about.corpora == corpora)

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise UserError(f"no table {name!r}; {nearest(name, self.tables)}")
        return self.tables[name]

    def metric(self, path: str) -> Metric:
        """Return how a metric is shown and compared. Raise UserError if its path is not declared."""
        metric = self.known_metric(path)
        if metric is None:
            raise UserError(f"metric {path!r} is not declared; metrics.yaml has {', '.join(self.metrics)}")
        return metric

    def known_metric(self, path: str) -> Metric | None:
        """Return the metric of the first pattern that fits, or None: an objective of a user may report undeclared metrics."""
        fitting = (metric for pattern, metric in self.metrics.items() if fnmatch.fnmatchcase(path, pattern))
        return next(fitting, None)
