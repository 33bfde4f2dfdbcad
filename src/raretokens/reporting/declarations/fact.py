"""Tables of facts: a parameter or a count a row, a run or a corpus a column."""

from pydantic import Field

from raretokens.reporting.tasks import TaskName
from raretokens.sections import Section

LISTS = ("parameters.", "options.")  # of a score file; a path that begins otherwise is a metric


class Subject(Section):
    """A column of a table of facts."""

    title: str = Field(description="as printed")
    runs: list[str] = Field([], description="names that are tried in order")
    task: TaskName | None = Field(None, description="if not the table's")
    corpus: str | None = Field(None, description="the only text that it speaks of")
    part: str = Field("", description="fills {part} in the paths of facts")
    data: bool = Field(False, description="its numbers need no model")
    absent: str | None = Field(None, description="why it cannot run")


class Fact(Section):
    """A row of a table of facts."""

    title: str = Field(description="as printed")
    column: str | None = Field(None, description="of the printed table, where its group names the subject")
    path: str = Field(
        "", description="parameters.<name> or options.<name> of the score file, else a metric; may hold {part}"
    )
    fixed: str | None = Field(None, description="what is the same in every run")
    default: float | None = Field(None, description="of the objective's option, where the run does not set it")
    runs: dict[str, list[str]] = Field({}, description="subject -> runs, where they are not its own; others have none")
    absent: str | None = Field(None, description="what it means if the score file does not have it")

    @property
    def metric(self) -> str:
        """Under which name metrics.yaml declares it."""
        listed = self.fixed is not None or self.path.startswith(LISTS)
        return "facts" if listed else self.path.replace("{part}", "")

    def names(self, subject: Subject) -> list[str]:
        return self.runs.get(subject.title, []) if self.runs else subject.runs
