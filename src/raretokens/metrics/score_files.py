"""Write score files (docs/artifacts.md): JSON and CSV that are identical byte for byte where the numbers are equal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.files import DIGITS, round_digits, write_text

Metrics = dict[str, tuple[Any, str]]  # metric -> (value, signature)
Replicates = dict[str, np.ndarray]  # metric, or group of one -> bootstrap replicates, NaN where undefined


def layout(
    facts: Mapping[str, Any],
    metrics: Metrics,
    near: Mapping[str, list] | None = None,
    options: Mapping[str, Any] | None = None,
    parameters: Sequence = (),
) -> dict[str, Any]:
    """Return the tree of a score file. Dotted metric names become nested dictionaries.

    Text is stored in lists, which `dvc exp show` does not display.
    """
    values: dict[str, Any] = {}
    for path, (value, _) in metrics.items():
        *parents, name = path.split(".")
        node = values
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = value
    return {
        **dict.fromkeys(("run", "task", "objective", "model", "seed")),
        **facts,
        "metrics": values,
        "neighbours": [[query, rows] for query, rows in (near or {}).items()],
        "signatures": [[path, signature] for path, (_, signature) in metrics.items()],
        "options": [[key, value] for key, value in (options or {}).items()],
        "parameters": list(parameters),
    }


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and value of each metric that has a value."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name, value


def signature_of(path: str, signatures: Mapping[str, str]) -> str:
    """Return the signature of the longest prefix of a metric's path that has one, else an empty string."""
    prefixes = (path.rsplit(".", cut)[0] for cut in range(path.count(".") + 1))
    return next((signatures[prefix] for prefix in prefixes if prefix in signatures), "")


BOOTSTRAP_DIGITS = 5
POINT_DIGITS = 4  # significant digits that a figure can show
Point = tuple[str, str, float, float]  # series, group, x, y


def write_json(path: Path, score: dict[str, Any]) -> None:
    """Write a score file with rounded floats. A metric without a value must be None.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    write_text(path, json.dumps(_rounded(score), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_baseline(
    folder: Path, name: str, task: str, metrics: Metrics, replicates: Mapping[str, np.ndarray], points: Iterable[Point]
) -> None:
    """Write <name>.json, <name>.bootstrap.csv and <name>.csv of a baseline that needs no model."""
    write_json(folder / f"{name}.json", layout({"run": name, "task": task}, metrics))
    write_bootstrap(folder / f"{name}.bootstrap.csv", replicates)
    write_points(folder / f"{name}.csv", points)


def write_points(path: Path, points: Iterable[Point]) -> None:
    """Write the points of figures as CSV with the columns series, group, x and y. Names need no quoting."""
    write_rows(path, ("series", "group", "x", "y"), points, POINT_DIGITS)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence], digits: int = DIGITS) -> None:
    """Write a table of names and numbers as CSV; None is an empty cell."""
    lines = (",".join(_cell(value, digits) for value in row) + "\n" for row in rows)
    write_text(path, ",".join(header) + "\n" + "".join(lines))


def write_bootstrap(path: Path, replicates: Mapping[str, np.ndarray]) -> None:
    """Write bootstrap replicates as CSV with metrics as columns and resampled test sets as rows; NaN is an empty cell."""
    columns = [[None if np.isnan(value) else value for value in values.tolist()] for values in replicates.values()]
    write_rows(path, list(replicates), zip(*columns, strict=True), BOOTSTRAP_DIGITS)


def _rounded(value: Any) -> Any:
    """Round floats, also inside dictionaries and lists."""
    if isinstance(value, float):
        return round_digits(value)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _cell(value: str | float | None, digits: int) -> str:
    """Format a cell. Integers (ranks, training steps, types) stay exact, floats are rounded to `digits`."""
    if value is None or isinstance(value, str):
        return value or ""
    return str(int(value)) if isinstance(value, int | np.integer) else f"{round_digits(value, digits):.{digits}g}"
