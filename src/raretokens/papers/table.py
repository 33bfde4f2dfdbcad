"""Schema of a table of a paper: data/paper/tables/<paper>.yaml, with its short forms expanded."""

from typing import Self

from pydantic import Field, model_validator

from raretokens.papers.task_names import TASKS, TaskName, TokensName
from raretokens.schema import Section


class Column(Section):
    """A column of a table of runs."""

    title: str = Field(description="head of the column")
    metric: str = Field(description="path in the score file, as metrics.yaml declares it")
    column: str | None = Field(None, description="of the reported table; absent: the paper has no such column")
    group: str | None = Field(None, description="of the reported table, inside the column")
    size: str | None = Field(None, description="fills {size} in the names of runs")
    side: str | None = Field(None, description="which of a row's runs stand here, where it has some for each side")
    reverse: bool = Field(False, description="runs of the reverse direction")
    interval: str | None = Field(None, description="metric that is shown after ± where there is one seed")
    absent: str | None = Field(None, description="why nothing here can run")
    lacking: str | None = Field(None, description="why a run that has scores may lack this number")


class RunRow(Section):
    """A row of a table of runs."""

    title: str = Field(description="as reported")
    runs: list[str] | dict[str, list[str]] = Field([], description="names that are tried in order; or side -> these")
    data: bool = Field(False, description="a row that needs no model; it is compared exactly")
    size: str | None = Field(None, description="the only size of columns that it fills")
    absent: str | None = Field(None, description="why it cannot run, or why its runs are on no run sheet")
    baseline: str | None = Field(None, description="the row that it is to be compared with; absent: the first of runs")
    aside: str | None = Field(None, description="added to the title in parentheses")
    remark: str | None = Field(None, description="on its numbers, below the table")
    only: str | None = Field(None, description="the only column of the reported table that it fills")
    instead: dict[str, str] = Field({}, description="first part of a column's metric -> what stands for it in this row")
    implied: dict[str, str] = Field({}, description="group -> what print implies without saying it; remark says how")

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
        """Return the metric that the row shows in a column."""
        family, dot, rest = column.metric.partition(".")
        return f"{self.instead.get(family, family)}{dot}{rest}"

    @property
    def label(self) -> str:
        """The row's title in the table."""
        return f"{self.title} ({self.aside})" if self.aside else self.title


LISTS = ("parameters.", "options.", "signatures.", "points.")  # prefixes of paths that are not metrics in a score file


class Subject(Section):
    """A column of a table of facts: a run or a corpus."""

    title: str = Field(description="as reported")
    runs: list[str] = Field([], description="names that are tried in order")
    task: TaskName | None = Field(None, description="if not the table's")
    corpus: str | None = Field(None, description="the only text that it is about")
    part: str = Field("", description="fills {part} in the paths of facts")
    data: bool = Field(False, description="its numbers need no model")
    absent: str | None = Field(None, description="why it cannot run, or why its runs are on no run sheet")


class Part(Section):
    """One of several numbers in a cell of a table of facts."""

    runs: list[str] = Field(description="names that are tried in order")
    less: list[str] = Field([], description="runs whose number is taken off")


class Fact(Section):
    """A row of a table of facts: a setting, a count or a result."""

    title: str = Field(description="as reported")
    column: str | None = Field(None, description="of the reported table, where its group names the subject")
    path: str = Field(
        "",
        description="parameters.<name>, options.<name> or signatures.<metric>.<key> of the score file, points.<series>, "
        "else a metric; may hold {part}",
    )
    fixed: str | None = Field(None, description="what is the same in every run")
    default: float | str | None = Field(
        None, description="of a parameter or an option that the score file does not list"
    )
    times: str | None = Field(None, description="option that multiplies it")
    percent: bool = Field(False, description="a share that is reported in percent")
    result: bool = Field(False, description="no setting: it can be the reported one at the reported scale alone")
    chosen: bool = Field(False, description="from a grid, by the validation text: another machine may choose otherwise")
    share_of: str | None = Field(None, description="metric that it is a percentage of")
    parts: list[Part] = Field([], description="the runs of each of several numbers; or differences of two runs")
    task: TaskName | None = Field(None, description="of its runs, if not the subject's")
    corpus: str | None = Field(None, description="the only text that it is about")
    implied: str | None = Field(None, description="what the paper says of it elsewhere, where the table does not")
    runs: dict[str, list[str]] = Field({}, description="subject -> runs, where they are not its own; others have none")
    absent: str | None = Field(None, description="what it means if the score file does not have it")

    @property
    def metric(self) -> str:
        """The name of the fact's metric in metrics.yaml."""
        listed = self.fixed is not None or not self.path or self.path.startswith(LISTS)
        return "facts" if listed else self.path.replace("{part}", "")

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

    title: str = Field(description="what it is about")
    paper: str = Field(description="the file's name")
    place: str = Field(description="in the paper")
    reported: str = Field(description="file of data/paper with the reported numbers, without .csv")
    task: TaskName = Field(description="of its runs; lm where nothing is said")
    columns: list[Column] = Field([], description="columns, or names of lists of columns.yaml")
    neighbours: int = Field(0, description="instead of columns: so many nearest neighbours of each query")
    rows: list[RunRow] = Field([], description="runs, in the paper's order")
    facts: list[Fact] = Field([], description="instead of rows: facts, in the paper's order")
    subjects: list[Subject] = Field([], description="instead of columns: what the facts are about")
    also: bool = Field(False, description="runs of the task that no table and no figure names follow")
    absent: str | None = Field(None, description="why runs of its rows are on no run sheet")
    tokens: TokensName | None = Field(None, description="of the runs that follow, where they are not the task's usual")

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
            raise ValueError(f"row {row.title!r}: name its runs, or say in `absent` why there are none")
        sides = {column.side for column in self.columns if column.side}
        if isinstance(row.runs, dict) and not row.runs.keys() <= sides:
            raise ValueError(f"row {row.title!r}: runs has {', '.join(row.runs)}; sides are {', '.join(sides)}")

    @property
    def is_of_text(self) -> bool:
        """Whether the paper reports the numbers in its text instead of a table."""
        return self.reported.endswith(TEXT)

    @property
    def token(self) -> str:
        """Unit of the table's runs in reports: a word or a subword token."""
        return "word" if self.own_tokens == "words" else "piece"

    @property
    def own_tokens(self) -> str:
        """The table's tokens, or the first tokens of its task."""
        return self.tokens or (TASKS[self.task].tokens[0] if self.task in TASKS else self.task)

    @property
    def runs(self) -> set[str]:
        """Names of the runs of the table's rows."""
        named = {name for row in self.rows for column in self.columns for name in row.names(column)}
        return named | {name for row in self.rows if self.neighbours for name in row.runs}
