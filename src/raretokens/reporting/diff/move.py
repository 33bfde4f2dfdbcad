"""A cell of the reports that is not what it was."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.reporting.declarations.metric import Tolerance


@dataclass(frozen=True)
class Move:
    place: str  # file of the reports
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool  # of its tolerance


def number_moves(place: str, row: str, column: str, before: str, after: str, drift: Tolerance) -> Iterator[Move]:
    """The move of a number; none where it stands still."""
    if before == after:
        return
    if drift.abs == float("inf"):  # words, which may change as long as there are some
        yield Move(place, row, column, before, after, "any", not (before and after))
        return
    old, new = number(before), number(after)
    out = old is None or new is None or not math.isfinite(new) or not drift.allows(old, new)
    yield Move(place, row, column, before, after, drift.bound, out)


def presence_move(place: str, row: str, column: str, old: object, new: object) -> Move:
    """Something that came or went."""
    before, after = ("" if part is None else "present" for part in (old, new))
    return Move(place, row, column, before, after, "", True)


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
