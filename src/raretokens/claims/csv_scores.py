"""Reader of scores in CSV: a row for each item, and a column for each metric."""

import csv
import math
from pathlib import Path

from raretokens.claims.item_scores import RunScores
from raretokens.errors import UserError

ITEM = ("item", "id")  # columns that can name the item
SYSTEM, SEED, CLUSTER = "system", "seed", "cluster"
RESERVED = (*ITEM, SYSTEM, SEED, CLUSTER, "")  # no metrics; the last is the index that pandas writes
TRUTH = {"true": 1.0, "false": 0.0}

Line = tuple[int, dict[str, str]]  # number of a line in the file, and its cells by column


def read_csv_scores(file: Path) -> list[RunScores]:
    """Return a run for each system and seed. Without a column `system`, the system is the name of the file.

    Columns without any number are left out.

    Raises:
        UserError: if there is no column of items, if an item has two rows of one run, or if a cell of a metric is no number.
    """
    columns, lines = _lines(file)
    item = next((name for name in ITEM if name in columns), None)
    if item is None:
        raise UserError(f"{file}: no column `item` or `id`; the columns are {', '.join(columns) or 'missing'}")
    metrics = [name for name in columns if name not in RESERVED and any(_number(cells[name]) is not None for _, cells in lines)]
    if not metrics:
        raise UserError(f"{file}: no column has numbers; should have a column for each metric")
    runs: dict[tuple[str, int | None], list[Line]] = {}
    for line in lines:
        runs.setdefault((line[1].get(SYSTEM) or file.stem, _seed(line, columns, file)), []).append(line)
    scores = ((system, seed, _scores(file, seed, item, metrics, own)) for (system, seed), own in runs.items())
    return [
        RunScores(
            system=system,
            seed=seed,
            items=list(items),
            clusters=list(items.values()) if CLUSTER in columns else None,
            metrics=metrics,
        )
        for system, seed, (items, metrics) in scores
    ]


def _lines(file: Path) -> tuple[list[str], list[Line]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            lines = [(reader.line_num, cells) for cells in reader]
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 at byte {error.start}") from None
    except csv.Error as error:
        raise UserError(f"{file}: not CSV: {error}") from None
    columns = list(reader.fieldnames or [])
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise UserError(f"{file}: two columns have the name {twice!r}; names must differ")
    for number, cells in lines:
        if None in cells or None in cells.values():  # more cells than columns, or fewer
            raise UserError(f"{file}: line {number}: should have {len(columns)} cells, as the first line")
    return columns, lines


def _number(cell: str) -> float | None:
    try:
        number = TRUTH.get(cell.strip().lower())
        number = float(cell) if number is None else number
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _seed(line: Line, columns: list[str], file: Path) -> int | None:
    number, cells = line
    if SEED not in columns:
        return None
    if not cells[SEED].strip().isdecimal():
        raise UserError(f"{file}: line {number}: {cells[SEED]!r} is not allowed as a seed: should be a whole number")
    return int(cells[SEED])


def _scores(
    file: Path, seed: int | None, item: str, metrics: list[str], lines: list[Line]
) -> tuple[dict[str, str], dict[str, list[float]]]:
    """Return item -> its cluster, and metric -> the score of each item."""
    scores: dict[str, list[float]] = {metric: [] for metric in metrics}
    items: dict[str, str] = {}
    for number, cells in lines:
        name = cells[item]
        if name in items:
            of_seed = "" if seed is None else f" of seed {seed}"
            rest = "" if SYSTEM in cells else "; a column `system` tells systems apart"
            raise UserError(f"{file}: line {number}: {item} {name!r} has a second row{of_seed}; should have one{rest}")
        items[name] = cells.get(CLUSTER, "")
        for metric, row in scores.items():
            score = _number(cells[metric])
            if score is None:
                raise UserError(f"{file}: line {number}: {metric}: {cells[metric]!r} is not allowed: should be a number")
            row.append(score)
    return items, scores
