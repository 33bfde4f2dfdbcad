"""Schemas of the tables and figures of a paper.

A table of data/paper/tables/<paper>.yaml has its short forms expanded. A figure of data/paper/figures.yaml has panels, which show
points or a metric of several runs.
"""

from collections.abc import Collection
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from raretokens.schema import Section
from reproduction.papers.setting import TASKS, TaskName, TokensName


class Column(Section):
    """A column of a table of runs."""

    title: str = Field(description="title of the column")
    metric: str = Field(description="path in the score file, declared in metrics.yaml")
    column: str | None = Field(
        None, description="column of the reported table; without it, the paper has no such column"
    )
    group: str | None = Field(None, description="group inside the column of the reported table")
    size: str | None = Field(None, description="value of {size} in the names of runs")
    side: str | None = Field(None, description="side of the row whose runs fill this column")
    reverse: bool = Field(False, description="whether the runs translate in the reverse direction")
    interval: str | None = Field(None, description="metric to show after ± with a single seed")
    absent: str | None = Field(None, description="reason why this column cannot be filled")
    lacking: str | None = Field(None, description="reason why a run with scores may lack this number")


class RunRow(Section):
    """A row of a table of runs."""

    title: str = Field(description="as reported")
    runs: list[str] | dict[str, list[str]] = Field(
        [], description="run names, of which the first on the run sheet counts; or side -> run names"
    )
    data: bool = Field(False, description="whether the row needs no model; its numbers are compared exactly")
    size: str | None = Field(None, description="only size whose columns the row fills")
    absent: str | None = Field(None, description="reason why it cannot run, or why its runs are on no run sheet")
    baseline: str | None = Field(None, description="row to compare with; default: the first row with runs")
    aside: str | None = Field(None, description="text after the title, in parentheses")
    remark: str | None = Field(None, description="remark on the numbers, below the table")
    only: str | None = Field(None, description="only column of the reported table that the row fills")
    instead: dict[str, str] = Field({}, description="first part of a metric path -> its replacement in this row")
    implied: dict[str, str] = Field({}, description="group -> number that the paper implies; `remark` explains how")

    def names(self, column: Column) -> list[str]:
        """Return the runs that may fill the row in a column, in the order in which they are tried."""
        own = isinstance(self.runs, dict) and column.side in self.runs
        if column.absent and not own or self.size and column.size not in (None, self.size):
            return []
        if self.only not in (None, column.column) or self.implied and column.group not in self.implied:
            return []
        names = self.runs.get(column.side or "", []) if isinstance(self.runs, dict) else self.runs
        return [name.replace("{size}", column.size or "") for name in names]

    def metric(self, column: Column) -> str:
        family, dot, rest = column.metric.partition(".")
        return f"{self.instead.get(family, family)}{dot}{rest}"

    @property
    def label(self) -> str:
        return f"{self.title} ({self.aside})" if self.aside else self.title


LISTS = ("parameters.", "options.", "signatures.", "points.")  # prefixes of paths that are not metrics in a score file


class Subject(Section):
    """A column of a table of facts: a run or a corpus."""

    title: str = Field(description="as reported")
    runs: list[str] = Field([], description="run names; the first name on the run sheet counts")
    task: TaskName | None = Field(None, description="task, if it differs from the task of the table")
    corpus: str | None = Field(None, description="only corpus that it describes")
    part: str = Field("", description="value of {part} in the paths of facts")
    data: bool = Field(False, description="whether the numbers need no model")
    absent: str | None = Field(None, description="reason why it cannot run, or why its runs are on no run sheet")


class FactPart(Section):
    """One of several numbers in a cell of a table of facts."""

    runs: list[str] = Field(description="run names; the first name on the run sheet counts")
    less: list[str] = Field([], description="runs whose number is subtracted")


class Fact(Section):
    """A row of a table of facts: a setting, a count or a result."""

    title: str = Field(description="as reported")
    column: str | None = Field(None, description="column of the reported table, if its group names the subject")
    path: str = Field(
        "",
        description="parameters.<name>, options.<name> or signatures.<metric>.<key> of the score file, points.<series>, "
        "else a metric; may hold {part}",
    )
    default: float | str | None = Field(
        None, description="value of a parameter or an option that the score file does not list"
    )
    times: str | None = Field(None, description="option by which the value is multiplied")
    percent: bool = Field(False, description="whether a share is reported in percent")
    result: bool = Field(
        False, description="whether it is a result, which can equal the reported one only at the reported scale"
    )
    chosen: bool = Field(
        False, description="whether the validation text selects it from a grid, so that another machine may differ"
    )
    share_of: str | None = Field(None, description="metric of which the value is a percentage")
    parts: list[FactPart] = Field([], description="runs of each of several numbers, or differences of two runs")
    task: TaskName | None = Field(None, description="task of the runs, if it differs from the task of the subject")
    corpus: str | None = Field(None, description="only corpus that it describes")
    implied: str | None = Field(None, description="number that the paper gives elsewhere, if not in the table")
    runs: dict[str, list[str]] = Field(
        {}, description="subject -> runs, if they differ from the subject's runs; other subjects have none"
    )
    absent: str | None = Field(None, description="meaning of a missing value in the score file")

    @property
    def metric(self) -> str:
        """The name of the fact's metric in metrics.yaml."""
        return "facts" if not self.path or self.path.startswith(LISTS) else self.path.replace("{part}", "")

    @property
    def is_measured(self) -> bool:
        """Whether the fact is a result rather than a setting."""
        return self.result or self.is_difference

    @property
    def is_difference(self) -> bool:
        """Whether the fact is a difference of runs, so that it has a sign."""
        return any(part.less for part in self.parts)

    def names(self, subject: Subject) -> list[str]:
        """Return the names of all runs of the fact for a subject."""
        if self.parts:
            return [name for part in self.parts for name in (*part.runs, *part.less)]
        return self.runs.get(subject.title, []) if self.runs else subject.runs


TEXT = "_text_facts"  # suffix of a file of data/paper with numbers from the running text


class Table(Section):
    """A table of a paper: runs by metrics, runs with their nearest neighbours, or facts by subjects."""

    title: str = Field(description="title of the table")
    paper: str = Field(description="name of the paper, which is the file name")
    place: str = Field(description="place in the paper")
    reported: str = Field(description="file of data/paper with the reported numbers, without .csv")
    task: TaskName = Field(description="task of the runs; default: lm")
    columns: list[Column] = Field([], description="columns, or names of lists of columns.yaml")
    neighbours: int = Field(0, description="number of nearest neighbours of each query, instead of columns")
    rows: list[RunRow] = Field([], description="rows of runs, in the order of the paper")
    facts: list[Fact] = Field([], description="facts, in the order of the paper, instead of rows")
    subjects: list[Subject] = Field([], description="subjects of the facts, instead of columns")
    also: bool = Field(False, description="whether runs of the task follow that no table and no figure names")
    tokens: TokensName | None = Field(
        None, description="tokens of the runs that follow, if they differ from the default of the task"
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.facts) != bool(self.subjects) or bool(self.facts) == bool(self.rows):
            raise ValueError("declare rows, or both facts and subjects")
        for row in self.rows:
            self._check(row)
        if stray := {row.baseline for row in self.rows} - {row.title for row in self.rows} - {None}:
            raise ValueError(f"baseline: no row {', '.join(map(repr, stray))}")
        return self

    def _check(self, row: RunRow) -> None:
        if not row.runs and not row.absent and not all(column.absent for column in self.columns):
            raise ValueError(f"row {row.title!r}: declare `runs`, or the reason in `absent`")
        sides = {column.side for column in self.columns if column.side}
        if isinstance(row.runs, dict) and not row.runs.keys() <= sides:
            raise ValueError(f"row {row.title!r}: runs has {', '.join(row.runs)}; sides are {', '.join(sides)}")

    @property
    def is_of_text(self) -> bool:
        """Whether the paper reports the numbers in its text instead of a table."""
        return self.reported.endswith(TEXT)

    @property
    def own_tokens(self) -> str:
        """The table's tokens, or the first tokens of its task."""
        return self.tokens or (TASKS[self.task].tokens[0] if self.task in TASKS else self.task)

    @property
    def runs(self) -> set[str]:
        named = {name for row in self.rows for column in self.columns for name in row.names(column)}
        return named | {name for row in self.rows if self.neighbours for name in row.runs}


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
