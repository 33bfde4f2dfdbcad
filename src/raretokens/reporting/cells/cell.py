"""A cell of a table: the printed number, ours, and how they compare, as text."""

from dataclasses import dataclass
from typing import Literal

from raretokens.papers.printed import is_quoted, is_suspicious
from raretokens.reporting.cells.significant import significant

Status = Literal["match", "differs", "other scale", "ours only", "quoted", "not run", ""]
Direction = Literal["same", "opposite", ""]


@dataclass(frozen=True)
class Cell:
    row: str
    column: str
    metric: str
    paper: str
    ours: str
    spread: str = ""
    delta: str = ""
    runs: str = ""
    status: Status = ""
    reason: str = ""  # why it was not run
    note: str = ""  # on the printed number; of a neighbour, its frequency group
    direction: Direction = ""  # of the difference to the row's baseline, beside the printed one
    remark: str = ""  # on our number
    printed: str = ""  # row > column > group of the printed cell; empty where the paper has none

    @property
    def quoted(self) -> bool:
        return bool(self.paper) and is_quoted(self.note)

    @property
    def suspicious(self) -> bool:
        return bool(self.paper) and is_suspicious(self.note)

    @property
    def shown(self) -> tuple[str, str]:
        """Ours and its spread, as tables show them; the CSV has all digits."""
        return (self.ours, self.spread) if self.metric == "facts" else significant(self.ours, self.spread)

    @property
    def is_rare(self) -> bool:
        """Whether it holds a neighbour of the rare group."""
        return self.metric == "neighbours" and self.note == "rare"


def compared(ours: str, paper: object, same: bool, comparable: bool = True) -> Status:
    """Status of a cell by what it holds: nothing of ours, nothing in print, or both.

    comparable: whether ours can be the printed one, as it cannot at another scale.
    """
    if not ours:
        return "not run"
    if not paper:
        return "ours only"
    if not comparable:
        return "other scale"
    return "match" if same else "differs"


def direction(ours: float, paper: float) -> Direction:
    """Of two differences to a baseline; none where either is nothing."""
    if not ours * paper:
        return ""
    return "same" if ours * paper > 0 else "opposite"
