"""All declarations of data/paper, and the schemas of its metrics and scales."""

import fnmatch
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr

from raretokens.errors import UserError, nearest
from raretokens.papers.claim import Claim, Precondition
from raretokens.papers.figure import Figure
from raretokens.papers.printed import PrintedTable
from raretokens.papers.table import Table
from raretokens.papers.task_names import TaskName
from raretokens.schema import Section


class Tolerance(Section):
    """How far two numbers may differ; with both bounds, the wider one counts."""

    rel: float | None = Field(None, description="a share of the older number")
    abs: float | None = Field(None, description="in the metric's unit")

    @property
    def bound(self) -> str:
        return " or ".join(f"{value:g} {kind}" for kind, value in self.model_dump().items() if value) or "exact"

    def allows(self, before: float, after: float) -> bool:
        return abs(after - before) <= self.around(before) + 1e-12

    def around(self, number: float) -> float:
        """The allowed distance from a number."""
        return max(self.abs or 0.0, (self.rel or 0.0) * abs(number))


EXACT = Tolerance(abs=0.0)  # of what no training touches
ANY = Tolerance(abs=float("inf"))  # as long as there is something


class Metric(Section):
    """How a metric is shown and compared: data/paper/metrics.yaml."""

    title: str = Field(description="what a reader calls it")
    unit: str = Field(description="of the number, and of the difference of two")
    digits: int = Field(description="shown after the point")
    direction: Literal["up", "down"] = Field(description="of the better value")
    match: Tolerance = Field(description="against the printed number, of one run at the paper's scale")
    drift: Tolerance = Field(description="in the report diff: the same code on another machine")
    drifts: dict[TaskName, Tolerance] = Field(
        {}, description="task -> drift, where last bits decide more of its training"
    )
    columns: dict[str, str] = Field({}, description="list of columns.yaml -> title of the column that it ends with")

    def drift_of(self, task: str) -> Tolerance:
        return self.drifts.get(task, self.drift)

    def unit_of(self, token: str) -> str:
        """The unit, with a subword token or a word for `token`."""
        return self.unit.replace("token", token)


class Scale(Section):
    """What readers should know about the reports of a scale: data/paper/scales.yaml."""

    corpora: dict[TaskName, str] = Field(description="task -> text; with other texts nothing is said")
    printed: bool = Field(
        False, description="its sizes and texts are the papers', so that a number may match the printed one"
    )
    text: str = Field(description="what the texts are")
    shows: str = Field(description="what the reports of this scale can show")
    hides: str = Field(description="what they cannot")


class Declarations(Section):
    """Metrics, tables, claims, preconditions, figures and scales by name."""

    folder: Path  # data/paper; the printed numbers lie there too
    metrics: dict[str, Metric]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    preconditions: dict[str, Precondition] = {}
    figures: dict[str, Figure]
    scales: dict[str, Scale]
    _printed: dict[Path, PrintedTable] = PrivateAttr(default_factory=dict)  # each read once

    def printed(self, name: str) -> PrintedTable:
        """The reported numbers of a file of the folder."""
        path = self.folder / name
        if path not in self._printed:
            self._printed[path] = PrintedTable(self.folder, name)
        return self._printed[path]

    def runs(self, task: str) -> set[str]:
        """Names of the runs of a task in any table or figure."""
        in_tables = (table.runs for table in self.tables.values() if table.task == task)
        return set().union(*in_tables, *(figure.runs(task) for figure in self.figures.values()))

    def is_printed(self, scale: str, corpora: dict[str, str]) -> bool:
        """Whether a scale has the papers' model configs and texts: at others no number can match the reported one."""
        about = self.scales.get(scale)
        return bool(about and about.printed and about.corpora == corpora)

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise UserError(f"no table {name!r}; {nearest(name, self.tables)}")
        return self.tables[name]

    def metric(self, path: str) -> Metric:
        """How a metric path is shown and compared; UserError where it is not declared."""
        metric = self.known_metric(path)
        if metric is None:
            raise UserError(f"metric {path!r} is not declared; metrics.yaml has {', '.join(self.metrics)}")
        return metric

    def known_metric(self, path: str) -> Metric | None:
        """The metric of the first pattern that fits, or None: a user's objective may report further metrics."""
        patterns = (pattern for pattern in self.metrics if fnmatch.fnmatchcase(path, pattern))
        return next(map(self.metrics.__getitem__, patterns), None)
