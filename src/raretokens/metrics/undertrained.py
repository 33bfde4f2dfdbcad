"""Under-trained rows: those that point where rows point that no text ever trained (Land and Bartolo 2024)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raretokens.metrics.rows import blocks, members, unit
from raretokens.metrics.spectrum import eigenvectors, mean_row

SHARE = 0.02  # of the types that are candidates


class Indicators(NamedTuple):
    """Cosine distance of rows to the mean of the known rows, 0 to 2: the smaller, the less trained."""

    ids: np.ndarray  # n, candidates first: by rising distance
    raw: np.ndarray  # n
    centred: np.ndarray  # n; the mean row taken from both
    turned: np.ndarray  # n; the first direction taken from both
    signature: str

    @property
    def candidates(self) -> int:
        return max(1, round(SHARE * len(self.ids)))


def indicators(table: np.ndarray, groups: np.ndarray, known: np.ndarray, which: str) -> Indicators | None:
    """Of all used rows. known: ids of rows that are known to be untrained; which says in the signature what they are.

    The first direction is the first right singular vector of the uncentred table. None where nothing is known.
    """
    ids = np.setdiff1d(members(groups)["total"], known) if which != "least-count" else members(groups)["total"]
    if not len(known) or not len(ids):
        return None
    every = members(groups)["total"]
    mean, first = mean_row(table, every), eigenvectors(table, every)[1][:, 0]
    centre = mean_row(table, known)

    def turned(rows: np.ndarray) -> np.ndarray:
        return rows - np.outer(rows @ first, first)

    distances = [
        _distances(table, ids, centre, change) for change in (lambda rows: rows, lambda rows: rows - mean, turned)
    ]
    order = np.argsort(distances[0], kind="stable")
    signature = f"distance:cosine|to:mean-of-{len(known)}-{which}|candidates:lowest-{SHARE:g}"
    raw, centred, without = (found[order] for found in distances)
    return Indicators(ids[order], raw, centred, without, signature)


def _distances(
    table: np.ndarray, ids: np.ndarray, centre: np.ndarray, change: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    towards = unit(change(centre[None]))[0]
    return np.concatenate([1 - unit(change(block)) @ towards for block in blocks(table, ids)])
