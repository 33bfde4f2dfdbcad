"""How often does the 95 % interval of a difference contain the true difference? Systems, seeds and test items are simulated.

    OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py --ratios 1 --replicates 2000 --out benchmarks/interval-coverage.csv

Every pair of systems has the same items. A score has a part of the item, one of the item and the system, one of the seed and the
system, and noise of all three. A real score is the sum. A binary score says whether the sum is positive. The interval is that of
`raretokens claims`. For one seed, the models are fixed, and the true difference is that of these two models.
"""

import argparse
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from records import keep
from scipy.special import ndtr

from raretokens.claims.comparison import Comparison
from raretokens.claims.item_scores import ItemColumn, RunScores, gather, resampled

KEY = ("scores", "ratio", "seeds")  # `items_<n>`: percent of the intervals that cover; `none_<n>`: percent without an interval
LEVELS = {"real": 0.0, "binary": 0.0, "binary near 95 %": 2.0}  # mean of the latent score of A
EFFECT = 0.2  # of the latent score
ITEM, OWN, NOISE = 1.0, 0.5, 0.5  # standard deviations: of items, of an item's difference between systems, of a seed's item
SEED = 0.05  # standard deviation of the seeds of A
AT_ONCE = 400  # columns in memory
SYSTEMS = ("A", "B")


class Cell(NamedTuple):
    """What is simulated: the kind of scores, B's deviation of seeds divided by A's, seeds (1: fixed models), and items."""

    kind: str
    ratio: float
    seeds: int
    items: int


def draw(cell: Cell, replicates: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores, shape (replicates, 2, seeds, items), and the true differences B - A, shape (replicates,)."""
    levels = LEVELS[cell.kind] + np.array([0.0, EFFECT])[:, None]
    seed_deviations = SEED * np.array([1.0, cell.ratio])[:, None]
    of_seeds = seed_deviations * random.normal(size=(replicates, 2, cell.seeds))
    means = levels + of_seeds
    latent = (
        means[..., None]
        + ITEM * random.normal(size=(replicates, 1, 1, cell.items))
        + OWN * random.normal(size=(replicates, 2, 1, cell.items))
        + NOISE * random.normal(size=(replicates, 2, cell.seeds, cell.items))
    )
    spread = np.full((1, 2), (ITEM**2 + OWN**2 + NOISE**2) ** 0.5)
    known = means[..., 0] if cell.seeds == 1 else np.broadcast_to(levels.T, (replicates, 2))
    spread = spread if cell.seeds == 1 else np.sqrt(spread**2 + seed_deviations.T**2)
    expected = known if cell.kind == "real" else ndtr(known / spread)
    return latent if cell.kind == "real" else (latent > 0).astype(float), expected[:, 1] - expected[:, 0]


def compare_all(scores: np.ndarray) -> Iterator[Comparison]:
    """Yield the comparison B - A of each replicate. All replicates share the resampled test sets, which is fast.

    Args:
        scores: shape (replicates, 2, seeds, items); with one seed the systems are fixed models.
    """
    _, _, seeds, items = scores.shape
    numbers = [None] if seeds == 1 else list(range(1, seeds + 1))
    runs = [RunScores(system=one, seed=seed, metrics={"m": [0.0, 1.0]}) for one in SYSTEMS for seed in numbers]
    frame = gather((f"{run.system}.json", run) for run in runs)
    names, step = list(frame.columns), max(1, AT_ONCE // (2 * seeds))
    template = ItemColumn([0.0] * items, [f"{index:09}" for index in range(items)], [f"{index:09}" for index in range(items)])
    for start in range(0, len(scores), step):
        rows = scores[start : start + step].reshape(-1, items)
        columns = [_filled(template, row) for row in rows]
        replicates = resampled(columns)
        for first in range(0, len(rows), len(names)):
            own = {name: {"m": columns[first + place]} for place, name in enumerate(names)}
            means = {(name, "m"): replicates[first + place] for place, name in enumerate(names)}
            one = replace(frame, columns=own, replicates=means)
            yield Comparison("difference", {"left": one.side("B", "m"), "right": one.side("A", "m")}, one)


def _filled(template: ItemColumn, row: np.ndarray) -> ItemColumn:
    column = copy(template)
    column.scores, column.mean = row, float(row.mean())
    return column


def coverage(cell: Cell, replicates: int) -> tuple[int, int]:
    """Return how many intervals contain the true difference, and how many there are: a difference may have none."""
    random = np.random.default_rng([cell.seeds, cell.items, list(LEVELS).index(cell.kind), int(cell.ratio)])
    covered = known = 0
    step = max(1, AT_ONCE * 10 // (2 * cell.seeds))
    for start in range(0, replicates, step):
        scores, truths = draw(cell, min(step, replicates - start), random)
        for comparison, truth in zip(compare_all(scores), truths, strict=True):
            if has_interval(comparison):
                known += 1
                covered += comparison.interval.low <= truth <= comparison.interval.high
    return covered, known


def has_interval(comparison: Comparison) -> bool:
    """Whether an interval is shown: the variance between seeds is known, and not all scores are equal."""
    interval = comparison.interval
    return interval is not None and interval.low < interval.high and not comparison.lacks_variance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--seeds", default="1,2,3,5,10")
    parser.add_argument("--items", default="30,300,3000")
    parser.add_argument("--ratios", default="1,4", help="standard deviation of the seeds of B divided by that of A")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    seeds, items, ratios = (list(map(int, text.split(","))) for text in (given.seeds, given.items, given.ratios))
    for ratio, kind, number in product(ratios, LEVELS, seeds):
        if number > 1 or ratio == ratios[0]:
            row = dict(zip(KEY, (kind, ratio, number), strict=True)) | {"replicates": given.replicates}
            found = {size: coverage(Cell(kind, ratio, number, size), given.replicates) for size in items}
            row |= {f"items_{size}": f"{100 * covered / max(1, known):.1f}" for size, (covered, known) in found.items()}
            row |= {f"none_{size}": f"{100 * (1 - known / given.replicates):.1f}" for size, (_, known) in found.items()}
            print(row, flush=True)
            if given.out:
                keep([row], given.out, KEY)


if __name__ == "__main__":
    main()
