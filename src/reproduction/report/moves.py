"""Cells of two versions of a report file side by side, and the moves of cells with numbers."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from raretokens import csv_files
from reproduction.papers.declarations import ANY, Tolerance

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


class Move(NamedTuple):
    """A number or a line that differs between two versions of the reports."""

    file: str  # file of the reports
    row: str
    column: str
    before: str
    after: str
    tolerance: str
    out: bool  # whether the move exceeds its tolerance
    metric: str = ""  # of a cell of tables and methods.csv


def number_moves(file: str, row: str, column: str, before: str, after: str, drift: Tolerance) -> Iterator[Move]:
    """Yield the move of a cell with one or several numbers, such as "1.31 / 1.18". Yield nothing if the cell is unchanged."""
    if before == after:
        return
    if drift == ANY:  # text, which may change but not become empty
        yield Move(file, row, column, before, after, "any", not (before and after))
        return
    old, new = ([float(part) for part in NUMBER.findall(text)] for text in (before, after))
    alike = NUMBER.sub("", before) == NUMBER.sub("", after) and len(old) == len(new)
    yield Move(file, row, column, before, after, drift.bound, not (alike and all(map(drift.allows, old, new))))


def presence_move(file: str, row: str, column: str, before: bool, now: bool) -> Move:
    """Return a move for a cell or a file that exists in only one version."""
    return Move(file, row, column, "present" if before else "", "present" if now else "", "", True)


def side_by_side(before: str, now: str, keys: list[str]) -> Iterator[tuple[Any, dict[str, str], dict[str, str]]]:
    """Yield the keys and both versions of each line that differs. A missing line is empty."""
    old, new = (csv_files.parse_csv(text) for text in (before, now))
    both = old.merge(new, how="outer", on=list(old), indicator=True)
    changed = both.loc[both._merge != "both", keys].drop_duplicates()
    order = pd.concat([old[keys], new[keys]]).drop_duplicates().merge(changed)
    versions = [{tuple(line[key] for key in keys): line for line in part.to_dict("records")} for part in (old, new)]
    for key in order.itertuples(index=False, name=None):
        yield key, *(version.get(key, {}) for version in versions)
