"""Score files: JSON and CSV that stay the same, byte for byte, as long as the numbers do."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = 6  # significant; the digits below depend on the machine
POINT_DIGITS = 4  # what a picture can show
Point = tuple[str, str, float, float]  # series, group, x, y


def write_json(path: Path, score: dict[str, Any]) -> None:
    """Write a score, its floats rounded, atomically: a reader sees the old file or the new one.

    Raises ValueError on a number that JSON does not have; a metric without a value is None.
    """
    _write(path, json.dumps(rounded(score), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_points(path: Path, points: Iterable[Point]) -> None:
    """Write the points of figures as `series,group,x,y`; every name is a plain word, so nothing is quoted."""
    lines = (f"{series},{group},{_cell(x, POINT_DIGITS)},{_cell(y, POINT_DIGITS)}\n" for series, group, x, y in points)
    _write(path, "series,group,x,y\n" + "".join(lines))


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[float | None]]) -> None:
    """Write a table of numbers as CSV; None is an empty cell."""
    lines = (",".join("" if value is None else _cell(value, DIGITS) for value in row) + "\n" for row in rows)
    _write(path, ",".join(header) + "\n" + "".join(lines))


def rounded(value: Any) -> Any:
    """Floats rounded to six significant digits, inside dictionaries and lists too; minus zero becomes zero."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def _cell(value: float, digits: int) -> str:
    """Whole numbers (ranks, updates, types) stay exact."""
    return (
        str(int(value)) if isinstance(value, int | np.integer) else f"{float(f'{value:.{digits}g}') + 0.0:.{digits}g}"
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)
