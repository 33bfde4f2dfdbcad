"""Cells of a table: the reported number, the measured number, and how they compare, as text."""

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from raretokens.evidence.scores import Scores
from raretokens.papers.declarations import NUMBER, Declarations, ReportedTable, is_quoted, is_suspicious, number
from raretokens.papers.table import Table

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
    scores_of: dict[str, Scores]  # task -> scores
    corpora: dict[str, str]  # task -> the text of the scale
    at_paper_scale: bool  # whether the scale has the papers' texts and model configs. At other scales no number can match.

    @property
    def scores(self) -> Scores:
        """The scores of the table's task."""
        return self.scores_of[self.table.task]

    @property
    def reported(self) -> ReportedTable:
        return self.declared.reported(self.table.reported)


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


TWICE = re.compile(r"(?P<number>[\d.]+)\s*-\s*(?P<again>\d+)")
BETWEEN = re.compile(r"\s*[;/]\s*")  # separators between several numbers in one reported cell
ROUNDED = 0.03  # relative tolerance of a number reported with a unit such as k or M: 32k stands for 32,768


def is_same(text: str, value: Any, within: float) -> bool:
    """Whether a value equals the reported value.

    Args:
        text: the reported value as text.
        value: the measured value.
        within: absolute tolerance for numbers without a unit.
    """
    twice = TWICE.fullmatch(text)
    if twice and twice["number"] == twice["again"]:
        text = twice["number"]
    reported, form = number(text), NUMBER.fullmatch(text)
    if reported is None or not form or isinstance(value, str):
        return text == str(value)
    return abs(reported - value) <= max(within, ROUNDED * reported if form["unit"] else 1e-9)


def ways(text: str, values: list[Any]) -> Direction:
    """Return "same" if all numbers of a cell have the reported signs, "opposite" if all have the other sign, else ""."""
    reported = [number(part) for part in parts(text)]
    if len(reported) != len(values) or None in (*reported, *values):
        return ""
    found = {direction(value, paper or 0.0) for value, paper in zip(values, reported, strict=True)}
    return found.pop() if len(found) == 1 else ""


def parts(text: str) -> list[str]:
    """Split a reported cell into its numbers."""
    return BETWEEN.split(text)


def joined(numbers: list[str], like: str) -> str:
    """Join numbers into one cell, with the separators of the reported cell."""
    between = BETWEEN.findall(like)
    missing = ["; "] * len(numbers)
    return "".join(
        part + mark for part, mark in zip(numbers, [*between, *missing][: len(numbers) - 1] + [""], strict=True)
    )
