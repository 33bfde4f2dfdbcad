"""The metrics' sums over tables that are too large for memory, each read from its file once for all of them.

One pass gives the sums, the Gram matrix and the length of every row of a set of rows; eigenvectors follow from it, and those
of the centred table too. Matrix products are float32 (sums of blocks float64), and the partition functions of I(W) are those
of evenly spaced rows: both stand in the signatures.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from raretokens.evaluation.metrics import isotropy, spectrum
from raretokens.evaluation.metrics import isotropy as cosine
from raretokens.evaluation.metrics import spectrum as all_but_top
from raretokens.evaluation.metrics.rows import evenly, members
from raretokens.tools.measure.row_order import Ordered

BLOCK = 4096  # rows
PANELS = 4  # of columns: the Gram matrix is symmetric, so only panels up to the diagonal are multiplied
WORK = 1e11  # rows x width^2 above which a table is large: some seconds of a core
PARTITION = 65_536  # rows that stand for all in I(W), of width 4096; narrower tables have more


class Sums(NamedTuple):
    total: np.ndarray  # d
    squares: float
    unit_total: np.ndarray  # d
    unit_squares: float
    gram: np.ndarray  # d x d


def is_large(rows: int, width: int) -> bool:
    return rows * width**2 > WORK


def limit(width: int) -> int:
    """Rows that stand for all in partition functions."""
    return PARTITION * max(1, 4096**2 // width**2)


@dataclass(eq=False)
class Without:
    """A large table less its mean and first directions."""

    of: Ordered
    mean: np.ndarray  # d
    top: np.ndarray  # d x D

    @property
    def shape(self) -> tuple[int, int]:
        return self.of.shape

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, ids: np.ndarray | slice) -> np.ndarray:
        rows = self.of[ids] - self.mean.astype(np.float32)
        return rows - (rows @ self.top.astype(np.float32)) @ self.top.T.astype(np.float32)


def sums(table: Ordered, ids: np.ndarray) -> Sums:
    """Of the rows `ids`, read once."""
    key = hash(ids.tobytes())
    if key not in table.sums:
        table.sums[key] = _sums(table, ids)
    return table.sums[key]


def _sums(table: Ordered, ids: np.ndarray) -> Sums:
    width = table.shape[1]
    total, unit_total, gram = np.zeros(width), np.zeros(width), np.zeros((width, width))
    squares = unit_squares = 0.0
    ids = ids[np.argsort(table.rows[ids])]  # as they lie in the file
    for start in range(0, len(ids), BLOCK):
        rows = torch.from_numpy(np.ascontiguousarray(table[ids[start : start + BLOCK]], np.float32))
        lengths = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
        inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
        total += rows.sum(0, dtype=torch.float64).numpy()
        unit_total += (inverse.float() @ rows).double().numpy()
        squares += float((lengths**2).sum())
        unit_squares += float((lengths > 0).sum())
        _add_gram(gram, rows)
    return Sums(total, squares, unit_total, unit_squares, np.triu(gram) + np.triu(gram, 1).T)


def _add_gram(gram: np.ndarray, rows: torch.Tensor) -> None:
    """The part above the diagonal."""
    edges = np.linspace(0, rows.shape[1], PANELS + 1).astype(int)
    for left, right in zip(edges, edges[1:], strict=False):
        gram[:right, left:right] += (rows[:, :right].T @ rows[:, left:right]).numpy()


@cosine.unit_sum.register
def _(table: Ordered, ids: np.ndarray) -> tuple[np.ndarray, float]:
    found = sums(table, ids)
    return found.unit_total, found.unit_squares


@cosine.raw_sum.register
def _(table: Ordered, ids: np.ndarray) -> tuple[np.ndarray, float]:
    found = sums(table, ids)
    return found.total, found.squares


@spectrum.mean_row.register
def _(table: Ordered, ids: np.ndarray) -> np.ndarray:
    return sums(table, ids).total / len(ids)


@spectrum.eigenvectors.register
def _(table: Ordered, ids: np.ndarray, mean: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    key = hash(ids.tobytes()), None if mean is None else hash(mean.tobytes())
    if key not in table.sums:
        found = sums(table, ids)
        gram = found.gram
        if mean is not None:
            cross = np.outer(found.total, mean)
            gram = gram - cross - cross.T + len(ids) * np.outer(mean, mean)
        values, vectors = np.linalg.eigh(gram)
        values, vectors = values[::-1], vectors[:, ::-1]
        signs = np.where(found.total @ vectors < 0, -1.0, 1.0)
        table.sums[key] = np.maximum(values, 0.0), vectors * signs
    return table.sums[key]


@spectrum.eigenvectors.register
def _(table: Without, ids: np.ndarray, mean: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Those of the centred table, the taken directions last; as the rows add up to nothing, signs are as they come."""
    values, vectors = spectrum.eigenvectors(table.of, ids, table.mean)
    taken = table.top.shape[1]
    return np.roll(np.concatenate((np.zeros(taken), values[taken:])), -taken), np.roll(vectors, -taken, axis=1)


@isotropy.of_rows.register(Ordered)
@isotropy.of_rows.register(Without)
def _(table: Ordered | Without, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    vectors = torch.from_numpy(spectrum.eigenvectors(table, ids)[1].astype(np.float32))
    kept = evenly(ids, limit(table.shape[1]))
    plus, minus = torch.full((2, vectors.shape[1]), -torch.inf, dtype=torch.float64)
    for start in range(0, len(kept), BLOCK):
        rows = torch.from_numpy(np.ascontiguousarray(table[kept[start : start + BLOCK]], np.float32))
        projected = rows @ vectors  # rows x directions
        plus = torch.logaddexp(plus, projected.logsumexp(0).double())
        minus = torch.logaddexp(minus, (-projected).logsumexp(0).double())
    return plus.numpy(), minus.numpy()


@all_but_top.all_but_top.register
def _(table: Ordered, groups: np.ndarray) -> tuple[Without, str]:
    ids, components = members(groups)["total"], max(1, round(table.shape[1] / 100))
    mean = spectrum.mean_row(table, ids)
    top = spectrum.eigenvectors(table, ids, mean)[1][:, :components]
    return Without(table, mean, top), f"without:mean+{components}-directions"


@cosine.unit_sum.register
def _(table: Without, ids: np.ndarray) -> tuple[np.ndarray, float]:
    """float32, over evenly spaced rows; scaled so that the mean over pairs is theirs."""
    kept = evenly(ids, limit(table.shape[1]))
    total, count = np.zeros(table.shape[1]), 0
    for start in range(0, len(kept), BLOCK):
        rows = table[kept[start : start + BLOCK]]
        lengths = np.linalg.norm(rows, axis=1)
        total += np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0) @ rows
        count += int((lengths > 0).sum())
    share = len(ids) / len(kept)
    return total * share, count * share**2


def remark(width: int, rows: int, metric: str) -> str:
    """What the signature of a metric of a large table says more."""
    thinned = metric.startswith(("isotropy", "all_but_top")) and rows > limit(width)
    return "|arithmetic:float32" + (f"|evenly-spaced:{limit(width)}" if thinned else "")
