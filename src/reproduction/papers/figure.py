"""Schema of a figure of a paper, whose panels show points or a metric of several runs: data/paper/figures.yaml."""

from collections.abc import Collection
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from raretokens.schema import Section
from reproduction.papers.task_names import TaskName

NEEDED = {"sweep": ("metric", "option", "runs"), "effect": ("claim",)}  # panels of other kinds need series and runs


class Panel(Section):
    """A panel of a figure."""

    title: str = Field(description="title of the panel; may contain {of}")
    kind: Literal["scatter", "line", "sweep", "effect"] = Field(description="kind of plot")
    series: str | None = Field(
        None, description="series of the points of the run; with `nth`, a prefix of series names"
    )
    nth: PositiveInt | None = Field(
        None, description="number of the series among those with this prefix, sorted by number or in file order"
    )
    groups: list[str] | None = Field(None, description="groups of the series; default: all")
    metric: str | None = Field(None, description="metric of a sweep, plotted against an option of the runs")
    option: str | None = Field(None, description="option on the x axis of a sweep")
    claim: str | None = Field(None, description="claim whose effect is plotted over training steps")
    runs: dict[str, list[str]] = Field({}, description="legend -> run names; the first name on the run sheet counts")
    data: bool = Field(False, description="whether the runs need no model")
    task: TaskName | None = Field(None, description="task, if it differs from the task of the figure")
    x: str = Field("", description="label of the x axis")
    y: str = Field("", description="label of the y axis; may contain {of}")
    log: list[Literal["x", "y"]] = Field([], description="axes with a logarithmic scale")
    limits: str | None = Field(None, description="panels of a figure with the same word have the same axis limits")
    mark: str | None = Field(
        None, description="option of the runs whose value is a training step; a line marks this step"
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = NEEDED.get(self.kind, ("series", "runs"))
        if absent := [key for key in needed if not getattr(self, key)]:
            raise ValueError(f"a panel of kind {self.kind} needs {', '.join(absent)}")
        return self


class Figure(Section):
    """A figure of a paper: data/paper/figures.yaml."""

    title: str = Field(description="title of the figure")
    paper: str = Field(description="name of the paper")
    place: str = Field(description="place in the paper")
    task: TaskName = Field(description="task of the runs")
    panels: list[Panel] = Field(
        description="panels, in the order of the paper; `each` has the keys that all panels share"
    )
    drift: float = Field(
        description="largest mean shift that the report diff accepts, as a share of the range of the panel"
    )

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
        """Return run and series of each scatter plot of a task. `sheet`: the runs of the task that are on the run sheet."""
        own = [panel for panel in self.panels if (panel.task or self.task) == task and panel.kind == "scatter"]
        runs = {(panel.series, next(filter(sheet.__contains__, names), "")) for panel in own for names in panel.runs.values()}
        return {(run, series) for series, run in runs if run and series}

    def runs(self, task: str) -> set[str]:
        """Return the names of the runs of a task in the figure's panels."""
        own = [panel for panel in self.panels if (panel.task or self.task) == task]
        return {name for panel in own for names in panel.runs.values() for name in names}
