"""Rows and columns of a table of runs."""

from pydantic import Field

from raretokens.sections import Section


class Column(Section):
    title: str = Field(description="head of the column")
    metric: str = Field(description="path in the score file, as metrics.yaml declares it")
    column: str | None = Field(None, description="of the printed table; absent: the paper has no such column")
    group: str | None = Field(None, description="of the printed table, inside the column")
    size: str | None = Field(None, description="fills {size} in the names of runs")
    side: str | None = Field(None, description="which of a row's runs stand here, where it has some for each side")
    reverse: bool = Field(False, description="runs of the reverse direction")
    interval: str | None = Field(None, description="metric that is shown after ± where there is one seed")
    absent: str | None = Field(None, description="why nothing here can run")
    lacking: str | None = Field(None, description="why a run that has scores may lack this number")


class RunRow(Section):
    title: str = Field(description="as printed")
    runs: list[str] | dict[str, list[str]] = Field([], description="names that are tried in order; or side -> these")
    data: bool = Field(False, description="a row that needs no model; it is compared exactly")
    size: str | None = Field(None, description="the only size of columns that it fills")
    absent: str | None = Field(None, description="why it cannot run, or why its runs are on no run sheet")
    baseline: str | None = Field(None, description="the row that it is to be compared with; absent: the first of runs")
    aside: str | None = Field(None, description="said beside the title")
    remark: str | None = Field(None, description="on its numbers, below the table")
    only: str | None = Field(None, description="the only column of the printed table that it fills")
    instead: dict[str, str] = Field({}, description="first part of a column's metric -> what stands for it in this row")
    implied: dict[str, str] = Field({}, description="group -> what print implies without saying it; remark says how")

    def names(self, column: Column) -> list[str]:
        """Runs that may fill the row in a column."""
        own = isinstance(self.runs, dict) and column.side in self.runs
        if column.absent and not own or self.size and column.size not in (None, self.size):
            return []
        if self.only not in (None, column.column) or self.implied and column.group not in self.implied:
            return []
        names = self.runs.get(column.side or "", []) if isinstance(self.runs, dict) else self.runs
        return [name.replace("{size}", column.size or "") for name in names]

    def metric(self, column: Column) -> str:
        """What it shows in a column."""
        family, dot, rest = column.metric.partition(".")
        return f"{self.instead.get(family, family)}{dot}{rest}"

    @property
    def label(self) -> str:
        """Its head in the table."""
        return f"{self.title} ({self.aside})" if self.aside else self.title
