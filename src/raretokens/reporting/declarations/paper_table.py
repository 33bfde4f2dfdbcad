"""A table of a paper: data/paper/tables/<paper>.yaml, its short forms written out."""

from typing import Self

from pydantic import Field, model_validator

from raretokens.reporting.declarations.fact import Fact, Subject
from raretokens.reporting.declarations.row import Column, RunRow
from raretokens.reporting.tasks import TASKS, TaskName, TokensName
from raretokens.sections import Section

TEXT = "_text_facts"  # end of the name of a file of data/paper


class Table(Section):
    """Rows of runs by columns of metrics, or rows of runs with their neighbours, or facts by subjects."""

    title: str = Field(description="what it is about")
    paper: str = Field(description="the file's name")
    place: str = Field(description="in the paper")
    printed: str = Field(description="file of data/paper with the printed numbers, without .csv")
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
        """Numbers that the paper prints in its text, not in a table."""
        return self.printed.endswith(TEXT)

    @property
    def token(self) -> str:
        """What its runs read."""
        return "word" if self.own_tokens == "words" else "piece"

    @property
    def own_tokens(self) -> str:
        return self.tokens or (TASKS[self.task].tokens[0] if self.task in TASKS else self.task)

    @property
    def runs(self) -> set[str]:
        """Names of runs that its rows take."""
        named = {name for row in self.rows for column in self.columns for name in row.names(column)}
        return named | {name for row in self.rows if self.neighbours for name in row.runs}
