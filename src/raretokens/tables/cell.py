"""A cell of a table: the printed number, ours, and how they compare, as text."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    metric: str
    paper: str
    ours: str
    spread: str
    delta: str
    runs: str
    status: str  # match, differs, not run, quoted, ours only
    reason: str  # why it was not run
    note: str  # on the printed number

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
