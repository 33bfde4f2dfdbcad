"""Cells of a table: the reported number, the measured number, and how they compare, as text."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reproduction.papers.claim_history import CHANGES, FROZEN
from reproduction.papers.declarations import Declarations, ReportedTable, is_quoted, is_suspicious
from reproduction.papers.table import TEXT, Table
from reproduction.papers.task_scores import TaskScores

DIGITS = 4  # significant digits of a number whose spread is unknown
PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def significant(value: str, spread: str = "") -> tuple[str, str]:
    """Round a value and its spread to significant digits. Return texts that are not numbers, and counts, unchanged.

    A spread keeps its first digit, and the second digit if the first is 1. The value is rounded to the same place.
    """
    if not PLAIN_NUMBER.fullmatch(value) or not (spread or "." in value):
        return value, spread
    given = len(value.partition(".")[2])
    known = float(spread) if spread else 0.0
    if known:
        exponent = math.floor(math.log10(known))
        places = -exponent + (known / 10**exponent < 2)
    else:
        places = DIGITS - 1 - math.floor(math.log10(abs(float(value)) or 1.0))
    places = min(places, given)
    return _rounded(value, places), spread and _rounded(spread, places)


def _rounded(number: str, places: int) -> str:
    value = round(float(number), places)
    return f"{value:,.{max(places, 0)}f}"


Status = Literal["match", "differs", "other scale", "not reported", "quoted", "not run", ""]
Direction = Literal["same", "opposite", ""]


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with all values as text."""

    row: str
    column: str
    metric: str
    reported: str
    measured: str
    spread: str = ""
    delta: str = ""
    runs: str = ""
    status: Status = ""
    reason: str = ""  # why the run has no number
    note: str = ""  # note on the reported number; for a neighbour, its frequency group
    direction: Direction = ""  # sign of the difference from the row's baseline, compared with the reported difference
    remark: str = ""  # remark on the measured number
    reported_cell: str = ""  # row > column > group in the paper's table; empty if the paper has no such cell

    @property
    def quoted(self) -> bool:
        return bool(self.reported) and is_quoted(self.note)

    @property
    def suspicious(self) -> bool:
        return bool(self.reported) and is_suspicious(self.note)

    @property
    def shown(self) -> tuple[str, str]:
        """Measured number and spread, rounded for tables. The CSV file has all digits."""
        pair = self.measured, self.spread
        return pair if self.metric == "facts" else significant(*pair)

    @property
    def is_rare(self) -> bool:
        """Whether the cell is a neighbour in the rare group."""
        return self.metric == "neighbours" and self.note == "rare"


@dataclass(frozen=True)
class TableContext:
    """What all cells of a table have in common."""

    declared: Declarations
    table: Table
    scores_of: dict[str, TaskScores]  # task -> scores
    corpora: dict[str, str]  # task -> the text of the scale
    at_paper_scale: bool  # whether the scale has the papers' texts and model configs. At other scales no number can match.

    @property
    def scores(self) -> TaskScores:
        return self.scores_of[self.table.task]

    @property
    def reported(self) -> ReportedTable:
        return self.declared.reported(self.table.reported)


def why_not_run(names: list[str], run: str | None, data: bool = False) -> str:
    """Return why there are no scores: of a run, or of the run that is none of these names on the run sheet."""
    if run is None and not data:
        return f"no run named {' or '.join(names)} on the run sheet"
    return f"{run or ' or '.join(names)} has no scores yet"


def compared(reported: object, same: bool, comparable: bool) -> Status:
    """Return the status of a cell with a measured number.

    Args:
        reported: the reported number; false: not reported.
        same: whether both numbers agree.
        comparable: whether the numbers can agree. At another scale than the paper's they cannot.
    """
    if not reported:
        return "not reported"
    if not comparable:
        return "other scale"
    return "match" if same else "differs"


def direction(measured: float, reported: float) -> Direction:
    """Compare the signs of two differences from a baseline. Return "" if either difference is 0."""
    if not measured * reported:
        return ""
    return "same" if measured * reported > 0 else "opposite"


@dataclass(frozen=True)
class Counts:
    """Numbers of reported and measured cells."""

    files: int
    reported: int
    dashes: int  # reported cells that are dashes
    measured: int  # reported cells that have a measured number
    statuses: Counter[str]
    directions: Counter[str]


def reported_counts(declared: Declarations, cells: dict[str, list[Cell]]) -> dict[str, Counts]:
    """Return the counts of `tables` and of `text` (numbers in the running text), without those of later papers."""
    counted = {name: table.reported for name, table in declared.tables.items() if declared.is_counted(table)}
    later = {table.reported for table in declared.tables.values()} - set(counted.values())
    others = {*later, Path(FROZEN).stem, Path(CHANGES).stem}
    files = [path.stem for path in sorted(declared.folder.glob("*.csv")) if path.stem not in others]
    first: dict[tuple[str, str], Cell] = {}  # reported file and cell -> the first cell that shows it
    for name, file in counted.items():
        for cell in cells.get(name, []):
            if cell.reported_cell:
                first.setdefault((file, cell.reported_cell), cell)
    of_text = {file for file in files if file.endswith(TEXT)}
    return {kind: _counts(declared, own, first) for kind, own in (("tables", set(files) - of_text), ("text", of_text))}


def _counts(declared: Declarations, files: set[str], first: dict[tuple[str, str], Cell]) -> Counts:
    cells = [cell for (file, _), cell in first.items() if file in files]
    reported = [cell for name in files for cell in declared.reported(name).cells.values()]
    return Counts(
        files=len(files),
        reported=len(reported),
        dashes=sum(not cell.text for cell in reported),
        measured=sum(bool(cell.measured and cell.reported) for cell in cells),
        statuses=Counter(cell.status for cell in cells if cell.status),
        directions=Counter(cell.direction for cell in cells if cell.direction),
    )
