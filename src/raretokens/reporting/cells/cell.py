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

    @property
    def quoted(self) -> bool:
        """The paper has the number from elsewhere."""
        return bool(self.paper) and self.note.startswith("quoted")

    @property
    def doubtful(self) -> bool:
        """The printed number cannot be right, or not together with another one."""
        return bool(self.paper) and self.note.startswith("suspicious")

    def as_dict(self) -> dict[str, str]:
        return asdict(self)
