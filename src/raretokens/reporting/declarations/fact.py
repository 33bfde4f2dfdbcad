"""Tables of facts: a parameter or a count a row, a run or a corpus a column."""

from pydantic import Field

from raretokens.reporting.tasks import TaskName
from raretokens.sections import Section

LISTS = (
    "parameters.",
    "options.",
    "signatures.",
    "points.",
)  # of a score file; a path that begins otherwise is a metric


class Subject(Section):
    """A column of a table of facts."""

    title: str = Field(description="as printed")
    runs: list[str] = Field([], description="names that are tried in order")
    task: TaskName | None = Field(None, description="if not the table's")
    corpus: str | None = Field(None, description="the only text that it speaks of")
    part: str = Field("", description="fills {part} in the paths of facts")
    data: bool = Field(False, description="its numbers need no model")
    absent: str | None = Field(None, description="why it cannot run, or why its runs are on no run sheet")


class Part(Section):
    """One of several numbers of a cell."""

    runs: list[str] = Field(description="names that are tried in order")
    less: list[str] = Field([], description="runs whose number is taken off")


class Fact(Section):
    """A row of a table of facts."""

    title: str = Field(description="as printed")
    column: str | None = Field(None, description="of the printed table, where its group names the subject")
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
    percent: bool = Field(False, description="a share that is printed in percent")
    result: bool = Field(False, description="no setting: it can be the printed one at the printed scale alone")
    chosen: bool = Field(False, description="from a grid, by the validation text: another machine may choose otherwise")
    share_of: str | None = Field(None, description="metric that it is a percentage of")
    parts: list[Part] = Field([], description="the runs of each of several numbers; or differences of two runs")
    task: TaskName | None = Field(None, description="of its runs, if not the subject's")
    corpus: str | None = Field(None, description="the only text that it speaks of")
    implied: str | None = Field(None, description="what the paper says of it elsewhere, where the table does not")
    runs: dict[str, list[str]] = Field({}, description="subject -> runs, where they are not its own; others have none")
    absent: str | None = Field(None, description="what it means if the score file does not have it")

    @property
    def metric(self) -> str:
        """Under which name metrics.yaml declares it."""
        listed = self.fixed is not None or not self.path or self.path.startswith(LISTS)
        return "facts" if listed else self.path.replace("{part}", "")

    @property
    def is_measured(self) -> bool:
        """A result, and no setting."""
        return self.result or self.is_difference

    @property
    def is_difference(self) -> bool:
        """Of runs, so that it has a sign."""
        return any(part.less for part in self.parts)

    def names(self, subject: Subject) -> list[str]:
        """Of all its runs."""
        if self.parts:
            return [name for part in self.parts for name in (*part.runs, *part.less)]
        return self.runs.get(subject.title, []) if self.runs else subject.runs
