"""Schema of a figure of a paper, whose panels show points or a metric of several runs: data/paper/figures.yaml."""

from collections.abc import Collection
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from raretokens.papers.task_names import TaskName
from raretokens.schema import Section

NEEDED = {
    "missing": ("reason",),
    "sweep": ("metric", "option", "runs"),
    "effect": ("claim",),
}  # panels of other kinds need series and runs


class Panel(Section):
    """A panel of a figure."""

    title: str = Field(description="above the panel; may hold {of}")
    kind: Literal["scatter", "line", "sweep", "effect", "missing"] = Field(description="how it is drawn")
    series: str | None = Field(None, description="of the run's points; a beginning of names where nth is set")
    nth: PositiveInt | None = Field(None, description="of the series that begin so: by number, or as the file has them")
    groups: list[str] | None = Field(None, description="of the series; absent: all")
    metric: str | None = Field(None, description="of a sweep, against an option of the runs")
    option: str | None = Field(None, description="of a sweep: what stands on the x axis")
    claim: str | None = Field(None, description="of an effect: whose effect is drawn over updates")
    runs: dict[str, list[str]] = Field({}, description="legend -> names of runs that are tried in order")
    data: bool = Field(False, description="the runs need no model")
    task: TaskName | None = Field(None, description="if not the figure's")
    x: str = Field("", description="label of the axis")
    y: str = Field("", description="label of the axis; may hold {of}")
    log: list[Literal["x", "y"]] = Field([], description="axes with a logarithmic scale")
    limits: str | None = Field(None, description="panels of a figure with the same word here have the same limits")
    mark: str | None = Field(None, description="option of the runs whose value is an update; a line stands there")
    reason: str | None = Field(None, description="why a panel is missing")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = NEEDED.get(self.kind, ("series", "runs"))
        if absent := [key for key in needed if not getattr(self, key)]:
            raise ValueError(f"a panel of kind {self.kind} needs {', '.join(absent)}")
        return self


class Figure(Section):
    """A figure of a paper: data/paper/figures.yaml."""

    title: str = Field(description="what it shows")
    paper: str = Field(description="whose figure it is")
    place: str = Field(description="in the paper")
    task: TaskName = Field(description="of its runs")
    panels: list[Panel] = Field(description="in the paper's order; `each` beside them holds what all have")
    drift: float = Field(description="mean shift that the report diff lets pass, as a share of the panel's range")

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, tree: Any) -> Any:
        """Add the keys of `each` to every panel that does not set them."""
        if not isinstance(tree, dict) or not isinstance(tree.get("each", {}), dict):
            return tree
        each = tree.get("each", {})
        panels = [{**each, **panel} if isinstance(panel, dict) else panel for panel in tree.get("panels", [])]
        return {**{key: value for key, value in tree.items() if key != "each"}, "panels": panels}

    def clouds(self, task: str, sheet: Collection[str]) -> set[tuple[str, str]]:
        """Return run and series of each scatter plot of a task.

        Args:
            task: the task of the panels.
            sheet: the runs of the task that are on the run sheet.
        """
        own = [panel for panel in self.panels if (panel.task or self.task) == task and panel.kind == "scatter"]
        found = {(panel.series, next(filter(sheet.__contains__, names), "")) for panel in own for names in panel.runs.values()}
        return {(run, series) for series, run in found if run and series}

    def runs(self, task: str) -> set[str]:
        """Return the names of the runs of a task in the figure's panels."""
        own = [panel for panel in self.panels if (panel.task or self.task) == task]
        return {name for panel in own for names in panel.runs.values() for name in names}
