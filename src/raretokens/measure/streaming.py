"""Sums over embeddings that are too large for memory. Each embedding is read from its file once for all metrics.

One pass over a set of rows computes the sums of rows and of unit rows, and the Gram matrix. The eigenvectors follow from the
Gram matrix, also those of the centred embedding. Matrix products are float32, and sums of blocks are float64. The partition
functions of I(W) use evenly spaced rows. The signatures contain both facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg.blas import ssyrk

from raretokens.measure.row_order import OrderedRows
from raretokens.metrics import isotropy, spectrum
from raretokens.metrics.rows import evenly, members

BLOCK = 4096  # rows per block
MAX_WORK = 1e10  # rows x width^2 above which an embedding is streamed; some seconds on one core
PARTITION_ROWS = 65_536  # rows that represent all rows in I(W) at width 4096; narrower embeddings use more


class Sums(NamedTuple):
    """Sums over rows w and over unit rows w / |w|, and the Gram matrix of the rows."""

    total: np.ndarray  # d
    squares: float
    unit_total: np.ndarray  # d
    unit_squares: float
    gram: np.ndarray  # d x d


def max_partition_rows(width: int) -> int:
    """Return the number of rows that represent all rows in I(W)."""
    return PARTITION_ROWS * max(1, 4096**2 // width**2)


def signature_suffix(width: int, rows: int, metric: str) -> str:
    """Return the addition to the signature of a metric of a streamed embedding."""
    most = max_partition_rows(width)
    is_sampled = metric.startswith(("isotropy", "all_but_top")) and rows > most
    return "|arithmetic:float32" + (f"|evenly-spaced:{most}" if is_sampled else "")


@dataclass(eq=False)
class WithoutTopDirections:
    """A streamed embedding minus its mean and first directions."""

    whole: OrderedRows
    mean: np.ndarray  # d
    top: np.ndarray  # d x D

    @property
    def shape(self) -> tuple[int, int]:
        return self.whole.shape

    def __getitem__(self, ids: np.ndarray | slice) -> np.ndarray:
        rows = self.whole[ids] - self.mean.astype(np.float32)
        return rows - (rows @ self.top.astype(np.float32)) @ self.top.T.astype(np.float32)


def row_sums(matrix: OrderedRows, ids: np.ndarray) -> Sums:
    """Return the sums over the rows `ids`, which are read once."""
    key = hash(ids.tobytes())
    if key not in matrix.cache:
        matrix.cache[key] = _read_sums(matrix, ids)
    return matrix.cache[key]


def _read_sums(matrix: OrderedRows, ids: np.ndarray) -> Sums:
    width = matrix.shape[1]
    total, unit_total, gram = np.zeros(width), np.zeros(width), np.zeros((width, width), order="F")
    squares = unit_squares = 0.0
    ids = ids[np.argsort(matrix.rows[ids])]  # in the order of the file
    for start in range(0, len(ids), BLOCK):
        rows = torch.from_numpy(np.ascontiguousarray(matrix[ids[start : start + BLOCK]], np.float32))
        lengths = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
        inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
        total += rows.sum(0, dtype=torch.float64).numpy()
        unit_total += (inverse.float() @ rows).double().numpy()
        squares += float((lengths**2).sum())
        unit_squares += float((lengths > 0).sum())
        gram += ssyrk(1.0, rows.numpy().T)  # the upper triangle
    return Sums(total, squares, unit_total, unit_squares, gram + np.triu(gram, 1).T)


@isotropy.vector_sum.register
def _(matrix: OrderedRows, ids: np.ndarray, raw: bool = False) -> tuple[np.ndarray, float]:
    sums = row_sums(matrix, ids)
    return (sums.total, sums.squares) if raw else (sums.unit_total, sums.unit_squares)


@spectrum.mean_row.register
def _(matrix: OrderedRows, ids: np.ndarray) -> np.ndarray:
    return row_sums(matrix, ids).total / len(ids)


@spectrum.eigenvectors.register
def _(matrix: OrderedRows, ids: np.ndarray, mean: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    key = hash(ids.tobytes()), None if mean is None else hash(mean.tobytes())
    if key not in matrix.cache:
        sums = row_sums(matrix, ids)
        gram = sums.gram
        if mean is not None:
            cross = np.outer(sums.total, mean)
            gram = gram - cross - cross.T + len(ids) * np.outer(mean, mean)
        values, vectors = np.linalg.eigh(gram)
        values, vectors = values[::-1], vectors[:, ::-1]
        signs = np.where(sums.total @ vectors < 0, -1.0, 1.0)
        matrix.cache[key] = np.maximum(values, 0.0), vectors * signs
    return matrix.cache[key]


@spectrum.eigenvectors.register
def _(matrix: WithoutTopDirections, ids: np.ndarray, mean: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the centred embedding, with the removed directions last.

    The rows sum to zero, so the signs of the eigenvectors are arbitrary.
    """
    values, vectors = spectrum.eigenvectors(matrix.whole, ids, matrix.mean)
    removed = matrix.top.shape[1]
    return np.roll(np.concatenate((np.zeros(removed), values[removed:])), -removed), np.roll(vectors, -removed, axis=1)


@isotropy.log_partition.register(OrderedRows)
@isotropy.log_partition.register(WithoutTopDirections)
def _(
    matrix: OrderedRows | WithoutTopDirections, ids: np.ndarray, scales: Sequence[float] = (1.0,)
) -> list[isotropy.Partition]:
    vectors = torch.from_numpy(spectrum.eigenvectors(matrix, ids)[1].astype(np.float32))
    kept = evenly(ids, max_partition_rows(matrix.shape[1]))
    log_z = torch.full((len(scales), 2, vectors.shape[1]), -torch.inf, dtype=torch.float64)
    for start in range(0, len(kept), BLOCK):
        rows = torch.from_numpy(np.ascontiguousarray(matrix[kept[start : start + BLOCK]], np.float32))
        projected = rows @ vectors  # rows x directions
        for scale, (plus, minus) in zip(scales, log_z, strict=True):
            plus[:] = torch.logaddexp(plus, (scale * projected).logsumexp(0).double())
            minus[:] = torch.logaddexp(minus, (-scale * projected).logsumexp(0).double())
    return [(plus, minus) for plus, minus in log_z.numpy()]


@spectrum.all_but_top.register
def _(matrix: OrderedRows, groups: np.ndarray) -> tuple[WithoutTopDirections, str]:
    ids, components = members(groups)["total"], max(1, round(matrix.shape[1] / 100))
    mean = spectrum.mean_row(matrix, ids)
    top = spectrum.eigenvectors(matrix, ids, mean)[1][:, :components]
    return WithoutTopDirections(matrix, mean, top), f"without:mean+{components}-directions"


@isotropy.vector_sum.register
def _(matrix: WithoutTopDirections, ids: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute the sum in float32 over evenly spaced rows, scaled so that the mean over pairs is the mean over their pairs."""
    kept = evenly(ids, max_partition_rows(matrix.shape[1]))
    total, count = np.zeros(matrix.shape[1]), 0
    for start in range(0, len(kept), BLOCK):
        rows = matrix[kept[start : start + BLOCK]]
        lengths = np.linalg.norm(rows, axis=1)
        total += np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0) @ rows
        count += int((lengths > 0).sum())
    share = len(ids) / len(kept)
    return total * share, count * share**2
