"""What can be declared in data/paper: metrics, tables, claims, figures and scales."""

import fnmatch
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from raretokens.errors import UserError


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tolerance(Section):
    rel: float | None = None
    abs: float | None = None

    def allows(self, before: float, after: float) -> bool:
        """Whether `after` lies within the tolerance of `before`; the wider of the two bounds counts."""
        bound = max(self.abs or 0.0, (self.rel or 0.0) * abs(before))
        return abs(after - before) <= bound + 1e-12


EXACT = Tolerance(abs=0.0)  # of what no training touches


class Metric(Section):
    title: str
    unit: str
    digits: int
    direction: Literal["up", "down"]
    match: Tolerance
    drift: Tolerance


class Column(Section):
    title: str
    metric: str
    column: str | None = None  # of the printed table; absent: ours only
    group: str | None = None
    size: str | None = None  # fills {size} in the names of runs
    side: str | None = None  # which of a row's runs stand here, where the row has some for each side
    reverse: bool = False  # runs of the reverse direction
    interval: str | None = None  # metric that is shown as the spread where there is one seed
    absent: str | None = None  # why nothing here can run


class Row(Section):
    title: str
    runs: list[str] | dict[str, list[str]] = []  # tried in order; or side -> these
    data: bool = False
    size: str | None = None  # the only size of columns that it fills
    absent: str | None = None  # why it cannot run

    def names(self, column: Column) -> list[str]:
        """Runs that may fill the row in a column."""
        if column.absent or self.size and column.size not in (None, self.size):
            return []
        names = self.runs.get(column.side or "", []) if isinstance(self.runs, dict) else self.runs
        return [name.replace("{size}", column.size or "") for name in names]


class Fact(Section):
    """A row of a table of facts."""

    title: str
    column: str | None = None  # of the printed table, where its group names the subject
    path: str = ""  # parameters.<name> and options.<name> of the score file, else a metric; {part}: the subject's
    fixed: str | None = None  # what is the same in every run
    default: float | None = None  # of the objective's option, where the run does not set it
    runs: dict[str, list[str]] = {}  # subject -> runs, where they are not the subject's own; others have none

    absent: str | None = None  # what it means if the score file does not have it

    def names(self, subject: "Subject") -> list[str]:
        return self.runs.get(subject.title, []) if self.runs else subject.runs


class Subject(Section):
    """A column of a table of facts: a run, or a corpus."""

    title: str
    runs: list[str] = []
    task: Literal["lm", "nmt"] | None = None  # if not the table's
    corpus: str | None = None  # the only corpus that it speaks of
    part: str = ""  # fills {part} in the paths of facts
    data: bool = False
    absent: str | None = None


class Table(Section):
    """Rows of runs by columns of metrics, or rows of runs with their neighbours, or facts by subjects."""

    title: str
    paper: str
    place: str
    printed: str
    task: Literal["lm", "nmt"]
    columns: list[Column] = []
    neighbours: int = 0  # a table of that many nearest neighbours a query, instead of columns
    rows: list[Row] = []
    facts: list[Fact] = []
    subjects: list[Subject] = []
    also: bool = False
    tokens: Literal["lm", "words"] = "lm"  # of the runs that follow

    @model_validator(mode="after")
    def _whole(self) -> Self:
        sides = {column.side for column in self.columns if column.side}
        for row in self.rows:
            if not row.runs and not row.absent and not all(column.absent for column in self.columns):
                raise ValueError(f"row {row.title!r}: name its runs, or say in `absent` why there are none")
            if isinstance(row.runs, dict) and not row.runs.keys() <= sides:
                raise ValueError(f"row {row.title!r}: runs has {', '.join(row.runs)}; sides are {', '.join(sides)}")
        if bool(self.facts) != bool(self.subjects) or bool(self.facts) == bool(self.rows):
            raise ValueError("declare rows, or both facts and subjects")
        return self

    @property
    def runs(self) -> set[str]:
        """Names of runs that its rows take."""
        named = {name for row in self.rows for column in self.columns for name in row.names(column)}
        return named | {name for row in self.rows if self.neighbours for name in row.runs}


class Side(Section):
    runs: Annotated[list[str], Field(min_length=1)]
    metric: str  # path in the score file; with `at`, series.group (or series) of the run's points
    at: Annotated[float, Field(ge=0, le=1)] | Literal["first", "last", "lowest", "highest", "until"] | None = None
    data: bool = False  # a run that needs no model
    printed: tuple[str, str, str, str] | None = None  # file, row, column, group; group *: the mean of all


class Claim(Section):
    paper: str = ""  # the name of the file
    place: str
    statement: str
    task: Literal["lm", "nmt"]
    left: Side
    right: Side | None = None  # absent: the left number itself is the effect
    effect: Literal["ratio", "difference", "value"]
    expect: Literal["lower", "higher"]
    than: float | None = None  # of the effect; 1 for a ratio, 0 for a difference
    unprinted: str | None = None  # why the paper prints no such effect

    @property
    def sides(self) -> dict[str, Side]:
        return {"left": self.left, **({"right": self.right} if self.right else {})}

    @property
    def threshold(self) -> float:
        return self.than if self.than is not None else {"ratio": 1.0}.get(self.effect, 0.0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.right is None) != (self.effect == "value"):
            raise ValueError("a value stands alone; a ratio and a difference need left and right")
        if (self.unprinted is None) != all(side.printed for side in self.sides.values()):
            raise ValueError("declare what is printed for each side, or in `unprinted` why it is not")
        return self


class Panel(Section):
    title: str  # {of}: what the name of an nth series ends in; also in y
    kind: Literal["scatter", "line", "sweep", "missing"]
    series: str | None = None  # of the run's points; a beginning of names where nth is set
    nth: PositiveInt | None = None  # of the series whose names begin so: by number, or as the file has them
    groups: list[str] | None = None  # of the series; absent: all
    metric: str | None = None  # of a sweep, against an option of the runs
    option: str | None = None
    runs: dict[str, list[str]] = {}  # legend -> names of runs, tried in order
    data: bool = False  # the runs need no model
    task: Literal["lm", "nmt"] | None = None  # if not the figure's
    x: str = ""
    y: str = ""
    log: list[Literal["x", "y"]] = []
    limits: str | None = None  # panels of a figure with the same word here have the same limits
    mark: str | None = None  # option of the runs whose value is an update; a line stands there
    reason: str | None = None  # why a panel is missing

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = {"missing": ("reason",), "sweep": ("metric", "option", "runs")}.get(self.kind, ("series", "runs"))
        if absent := [key for key in needed if not getattr(self, key)]:
            raise ValueError(f"a panel of kind {self.kind} needs {', '.join(absent)}")
        return self


class Figure(Section):
    title: str
    paper: str
    place: str
    task: Literal["lm", "nmt"]
    panels: list[Panel]
    drift: float  # mean shift of a curve or cloud, as a share of its panel's range

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, tree: Any) -> Any:
        """`each` holds what all panels have."""
        if not isinstance(tree, dict) or not isinstance(tree.get("each", {}), dict):
            return tree
        each = tree.get("each", {})
        panels = [{**each, **panel} if isinstance(panel, dict) else panel for panel in tree.get("panels", [])]
        return {**{key: value for key, value in tree.items() if key != "each"}, "panels": panels}


class Scale(Section):
    corpora: dict[Literal["lm", "nmt"], str]  # what is said holds for these
    text: str
    shows: str
    hides: str


class Declarations(Section):
    metrics: dict[str, Metric]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    figures: dict[str, Figure]
    scales: dict[str, Scale]

    def runs(self, task: str) -> set[str]:
        """Names of runs that a row of a table or a panel of a figure takes."""
        found = {name for table in self.tables.values() if table.task == task for name in table.runs}
        for figure in self.figures.values():
            panels = [panel for panel in figure.panels if (panel.task or figure.task) == task]
            found |= {name for panel in panels for names in panel.runs.values() for name in names}
        return found

    def metric(self, path: str) -> Metric:
        """How a metric path is shown and compared: the first pattern that fits; UserError where none does."""
        for pattern, metric in self.metrics.items():
            if fnmatch.fnmatchcase(path, pattern):
                return metric
        raise UserError(f"metric {path!r} is not declared; metrics.yaml has {', '.join(self.metrics)}")
