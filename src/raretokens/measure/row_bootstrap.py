"""Bootstrap replicates of the geometry of an embedding, with the same resampled token types for every model.

Token types fall into blocks by a checksum of their text, or of their id if they have none. Blocks are resampled as units. So two
models have paired replicates: a type that both vocabularies contain is in the same block of both.

I(W) and the spectrum keep the eigenvectors of the whole embedding. The eigenvalue of a replicate is then the sum of squares along
its eigenvector, which is exact to first order in the weights of the rows. A replicate costs no decomposition of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

from raretokens.metrics.bootstrap import BLOCKS, resample
from raretokens.metrics.rows import BLOCK, blocks, members, unit
from raretokens.metrics.score_files import Replicates
from raretokens.metrics.spectrum import eigenvectors

MAX_WORK = 1e11  # rows x width^2 above which no replicates are computed; a minute on one core


class BlockSums(NamedTuple):
    """Sums over the rows w of each block of token types, and over their unit rows."""

    number: np.ndarray  # BLOCKS
    length: np.ndarray  # BLOCKS, of |w|
    squares: np.ndarray  # BLOCKS, of |u|^2 of the unit rows u: 1, or 0 for a row of zeros
    unit: np.ndarray  # BLOCKS x d
    partition: np.ndarray  # BLOCKS x d, of exp(w . a) over a constant of the eigenvector a
    shift: np.ndarray  # d, the logarithm of that constant
    square: np.ndarray  # BLOCKS x d, of (w . a)^2


def row_replicates(matrix: Any, groups: np.ndarray, tokens: Sequence[str]) -> Replicates:
    """Return replicates of cosines, I(W), mean norms, effective rank and singular values.

    The copies of a resampled type make no pairs with each other, because their cosine is 1 in every model. The matrix is N x d.
    Each row has a frequency group and a token. An empty token stands for the row's index.
    """
    block = np.array([crc32((token or str(index)).encode("utf-8", "replace")) % BLOCKS for index, token in enumerate(tokens)])
    weights = np.stack([np.bincount(row, minlength=BLOCKS) for row in resample(BLOCKS)]).astype(float)  # REPLICATES x BLOCKS
    totals, numbers, replicates = {}, {}, {}
    for name, ids in members(groups).items():
        if not len(ids):
            continue
        sums = _sum_blocks(matrix, ids, block)
        totals[name], numbers[name] = weights @ sums.unit, weights @ sums.number
        pairs = (totals[name] ** 2).sum(axis=1) - weights**2 @ sums.squares
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates[f"cosine.mean.{name}"] = pairs / (numbers[name] ** 2 - weights**2 @ sums.number)
            replicates[f"norm_by_frequency.{name}"] = weights @ sums.length / numbers[name]
            replicates[f"isotropy.{name}"] = _isotropy(weights @ sums.partition, sums.shift)
            if name == "total":
                replicates["mean_cosine"] = pairs / numbers[name] ** 2
                replicates |= _spectrum(np.sqrt(weights @ sums.square))
    if {"rare", "freq"} <= numbers.keys() and numbers["rare"].all() and numbers["freq"].all():
        products = (totals["rare"] * totals["freq"]).sum(axis=1)
        replicates["rare_freq_cosine"] = products / (numbers["rare"] * numbers["freq"])
    return replicates


def _sum_blocks(matrix: Any, ids: np.ndarray, block: np.ndarray) -> BlockSums:
    """Sum over the rows `ids` by block. Projections are float32."""
    vectors = eigenvectors(matrix, ids)[1].astype(np.float32)
    width = len(vectors)
    sums = BlockSums(
        np.bincount(block[ids], minlength=BLOCKS), np.zeros(BLOCKS), np.zeros(BLOCKS), np.zeros((BLOCKS, width)),
        np.zeros((BLOCKS, width)), np.full(width, -np.inf), np.zeros((BLOCKS, width)),
    )  # fmt: skip
    for start, rows in zip(range(0, len(ids), BLOCK), blocks(matrix, ids), strict=True):
        indices = block[ids[start : start + len(rows)]], np.arange(len(rows))
        assigned = csr_array((np.ones(len(rows)), indices), shape=(BLOCKS, len(rows)))
        sums.length[:] += assigned @ np.linalg.norm(rows, axis=1)
        units = unit(rows)
        sums.squares[:] += assigned @ (units * units).sum(axis=1)
        sums.unit[:] += assigned @ units
        projected = rows.astype(np.float32) @ vectors
        sums.square[:] += assigned @ projected**2
        highest = np.maximum(sums.shift, projected.max(axis=0))
        sums.partition[:] *= np.exp(sums.shift - highest)
        sums.shift[:] = highest
        sums.partition[:] += assigned @ np.exp(projected - highest.astype(np.float32))
    return sums


def _isotropy(partition: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return I(W) of each replicate from its partition functions (REPLICATES x d)."""
    log_z = np.log(partition) + shift
    return np.exp(log_z.min(axis=1) - log_z.max(axis=1))


def _spectrum(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield path and replicates of the effective rank and the first singular values; values: REPLICATES x d."""
    values = -np.sort(-values, axis=1)
    share = values / values.sum(axis=1, keepdims=True)
    yield "effective_rank.total", np.exp(-np.sum(share * np.log(np.where(share > 0, share, 1.0)), axis=1))
    for rank in range(2, min(4, values.shape[1] + 1)):
        yield f"singular_value.{rank}", values[:, rank - 1] / values[:, 0]
