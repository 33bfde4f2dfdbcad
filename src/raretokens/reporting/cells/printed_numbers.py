"""Numbers as the papers write them: `32k` is rounded, `6-6` are the layers of an encoder and a decoder, `0.8/1.7` are two."""

import re
from typing import Any

from raretokens.papers.printed import NUMBER, number
from raretokens.reporting.cells.cell import Direction, direction

TWICE = re.compile(r"(?P<number>[\d.]+)\s*-\s*(?P<again>\d+)")
BETWEEN = re.compile(r"\s*[;/]\s*")  # several numbers of one printed cell
ROUNDED = 0.03  # what a number printed with k or M may be off: 32k stands for 32,768


def is_same(text: str, value: Any, within: float) -> bool:
    """Whether a value is the printed one; within: of numbers without a unit."""
    twice = TWICE.fullmatch(text)
    if twice and twice["number"] == twice["again"]:
        text = twice["number"]
    printed, form = number(text), NUMBER.fullmatch(text)
    if printed is None or not form or isinstance(value, str):
        return text == str(value)
    return abs(printed - value) <= max(within, ROUNDED * printed if form["unit"] else 1e-9)


def ways(text: str, values: list[Any]) -> Direction:
    """Whether all numbers of a cell have the sign of the printed ones, or all the other sign."""
    printed = [number(part) for part in parts(text)]
    if len(printed) != len(values) or None in (*printed, *values):
        return ""
    found = {direction(value, paper or 0.0) for value, paper in zip(values, printed, strict=True)}
    return found.pop() if len(found) == 1 else ""


def parts(text: str) -> list[str]:
    """The numbers of a printed cell."""
    return BETWEEN.split(text)


def joined(numbers: list[str], like: str) -> str:
    """Numbers as one cell, with the marks between them that the printed cell has."""
    between = BETWEEN.findall(like)
    missing = ["; "] * len(numbers)
    return "".join(
        part + mark for part, mark in zip(numbers, [*between, *missing][: len(numbers) - 1] + [""], strict=True)
    )
