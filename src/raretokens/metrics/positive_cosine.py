"""Positive cosines: how many pairs of rows point into the same half of the space."""

import numpy as np

from raretokens.metrics.rows import BLOCK, blocks, evenly, members, unit

LIMIT = 8192  # rows of a group; 33.5 million pairs
NOUGHT = 1e-12  # a cosine up to this is rounding


def positive_cosine(
    table: np.ndarray, groups: np.ndarray, *, limit: int = LIMIT
) -> tuple[dict[str, float | None], str]:
    """Share of pairs of two different rows of a group whose cosine is above 0 (CosReg section 3.2); None below two rows.

    A row of zeros has a positive cosine with none. Above `limit` rows in a group, evenly spaced ones stand for
    all of it, and the signature says so. float64, in row blocks.
    """
    kept = members(groups)
    value = {name: _share(table, evenly(ids, limit)) for name, ids in kept.items()}
    thinned = f"|evenly-spaced:{limit}" if max(map(len, kept.values())) > limit else ""
    return value, f"pairs:distinct|rows:no-pad-no-fillers{thinned}"


def _share(table: np.ndarray, ids: np.ndarray) -> float | None:
    n = len(ids)
    if n < 2:
        return None
    vectors = np.concatenate([unit(block) for block in blocks(table, ids)])
    positive = 0
    for start in range(0, n, BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors[start:].T
        positive += int(np.triu(cosines > NOUGHT, 1).sum())  # each pair once
    return positive / (n * (n - 1) / 2)
