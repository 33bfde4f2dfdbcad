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


class RunRow(Section):
    title: str = Field(description="as printed")
    runs: list[str] | dict[str, list[str]] = Field([], description="names that are tried in order; or side -> these")
    data: bool = Field(False, description="a row that needs no model; it is compared exactly")
    size: str | None = Field(None, description="the only size of columns that it fills")
    absent: str | None = Field(None, description="why it cannot run")

    def names(self, column: Column) -> list[str]:
        """Runs that may fill the row in a column."""
        if column.absent or self.size and column.size not in (None, self.size):
            return []
        names = self.runs.get(column.side or "", []) if isinstance(self.runs, dict) else self.runs
        return [name.replace("{size}", column.size or "") for name in names]
