"""Bootstrap replicates of cosines between rows, with the same resampled token types for every model.

Token types fall into blocks by a checksum of their text, or of their id if they have none. Blocks are resampled as units. So two
models have paired replicates: a type that both vocabularies contain is in the same block of both.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from raretokens.evaluation.metrics.bootstrap import BLOCKS, Replicates, resample
from raretokens.evaluation.metrics.rows import blocks, members, unit


def cosine_replicates(matrix: Any, groups: np.ndarray, tokens: Sequence[str]) -> Replicates:
    """Return replicates of mean_cosine, rare_freq_cosine and cosine.mean of each group.

    The copies of a resampled type make no pairs with each other, because their cosine is 1 in every model.

    Args:
        matrix: N x d.
        groups: frequency group of each row (N).
        tokens: token of each row (N); an empty one stands for the row's place.
    """
    block = np.array([crc32((token or str(place)).encode("utf-8", "replace")) % BLOCKS for place, token in enumerate(tokens)])
    weights = np.stack([np.bincount(row, minlength=BLOCKS) for row in resample(BLOCKS)]).astype(float)  # REPLICATES x BLOCKS
    totals, numbers, replicates = {}, {}, {}
    for name, ids in members(groups).items():
        sums, number = np.zeros((BLOCKS, matrix.shape[1])), np.bincount(block[ids], minlength=BLOCKS)
        for start, rows in zip(range(0, len(ids), 1024), blocks(matrix, ids), strict=True):
            sums += (block[ids[start : start + len(rows)]] == np.arange(BLOCKS)[:, None]).astype(float) @ unit(rows)
        totals[name], numbers[name] = weights @ sums, weights @ number
        pairs = (totals[name] ** 2).sum(axis=1) - weights**2 @ number
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates[f"cosine.mean.{name}"] = pairs / (numbers[name] ** 2 - weights**2 @ number)
            if name == "total":
                replicates["mean_cosine"] = pairs / numbers[name] ** 2
    if numbers["rare"].all() and numbers["freq"].all():
        products = (totals["rare"] * totals["freq"]).sum(axis=1)
        replicates["rare_freq_cosine"] = products / (numbers["rare"] * numbers["freq"])
    return replicates
