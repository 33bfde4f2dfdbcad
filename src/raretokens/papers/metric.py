"""Schema of a metric, how it is shown and compared: data/paper/metrics.yaml."""

from typing import Literal

from pydantic import Field

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
