"""A cell of the reports that is not what it was."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from raretokens.papers.metric import Tolerance

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


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
    old, new = _numbers(before), _numbers(after)
    alike = NUMBER.sub("", before) == NUMBER.sub("", after) and len(old) == len(new)
    out = not (alike and all(map(drift.allows, old, new)))
    yield Move(place, row, column, before, after, drift.bound, out)


def presence_move(place: str, row: str, column: str, old: object, new: object) -> Move:
    """Something that came or went."""
    before, after = ("" if part is None else "present" for part in (old, new))
    return Move(place, row, column, before, after, "", True)


def _numbers(text: str) -> list[float]:
    """Of a cell, which may have several, such as "1.31 / 1.18"."""
    return [float(part) for part in NUMBER.findall(text)]


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
