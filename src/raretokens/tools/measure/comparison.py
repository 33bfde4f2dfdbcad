"""Comparison of measured models: paired bootstrap replicates of their geometry, differences, and a verdict in words.

Token types fall into blocks by a checksum of their text, or of their id if they have none. Blocks are resampled as units. So two
models have paired replicates: a type that both vocabularies contain is in the same block of both.

I(W) and the spectrum keep the eigenvectors of the whole embedding. The eigenvalue of a replicate is then the sum of squares along
its eigenvector, which is exact to first order in the weights of the rows. A replicate costs no decomposition of its own.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

from raretokens.evaluation.metrics.bootstrap import BLOCKS, Replicates, resample
from raretokens.evaluation.metrics.rows import BLOCK, blocks, members, unit
from raretokens.evaluation.metrics.spectrum import eigenvectors
from raretokens.evaluation.score_files import Metrics, flatten

if TYPE_CHECKING:
    from raretokens.tools.measure.measurement import Measurement

MAX_WORK = 1e11  # rows x width^2 above which no replicates are computed; a minute on one core
GROUPS = {"freq": "frequent", "med": "medium", "rare": "rare"}


class Difference(NamedTuple):
    """A metric of two embeddings, with an interval of the difference."""

    path: str
    first: float
    second: float
    low: float | None  # bounds of the 95 % interval of second - first
    high: float | None

    @property
    def value(self) -> float:
        return self.second - self.first


class Comparison(NamedTuple):
    """Two embeddings with the differences of their metrics."""

    first: str  # titles of measurements
    second: str
    differences: list[Difference]

    @property
    def verdict(self) -> str:
        """A sentence on isotropy, which is higher where the mean cosine is lower; a difference needs an interval without 0."""
        by_path = {one.path: one for one in self.differences}
        total = by_path.get("mean_cosine")
        if total is None or total.low is None or total.high is None:
            return f"No interval says whether {self.second} is more isotropic than {self.first}."
        if total.low <= 0 <= total.high:
            return f"{self.second} and {self.first} do not differ in mean cosine beyond chance."
        is_lower = total.high < 0
        paths = {name: f"cosine.mean.{group}" for group, name in GROUPS.items()}
        changes = {name: by_path[path].value for name, path in paths.items() if path in by_path}
        verdict = f"{self.second} is {'more' if is_lower else 'less'} isotropic than {self.first}"
        if not changes:
            return verdict + "."
        most = (min if is_lower else max)(changes, key=changes.__getitem__)
        return f"{verdict}; {most} rows {'gain' if is_lower else 'lose'} most."


def compare(measurements: Sequence["Measurement"]) -> list[Comparison]:
    """Compare each further model with the first. Embeddings of the same kind are compared, and tied with untied ones."""
    first = [one for one in measurements if one.model == measurements[0].model]
    pairs = [
        (next((one for one in first if one.embedding == other.embedding), first[-1]), other)
        for other in measurements
        if other.model != measurements[0].model
    ]
    return [Comparison(one.title, other.title, find_differences(one, other)) for one, other in pairs]


def find_differences(first: "Measurement", second: "Measurement") -> list[Difference]:
    """Return the differences of the common metrics with comparable signatures.

    Both models have the same bootstrapped texts and token types, so their differences are paired.
    """
    others = {path: (number, signature) for path, number, signature in signed_numbers(second.metrics)}
    return [
        Difference(path, number, others[path][0], *_interval(first, second, path))
        for path, number, signature in signed_numbers(first.metrics)
        if path in others and _keys(signature) == _keys(others[path][1])
    ]


def signed_numbers(metrics: Metrics) -> Iterator[tuple[str, float, str]]:
    """Yield path, number and signature of each number."""
    for path, (value, signature) in metrics.items():
        yield from ((name, number, signature) for name, number in flatten({path: value}))


def _keys(signature: str) -> list[str]:
    """Return the keys of a signature, without its values, which depend on the tokenizer, and without the arithmetic.

    Float32 and float64 differ by less than any interval.
    """
    return [key for part in signature.split("|") if (key := part.split(":")[0]) != "arithmetic"]


def _interval(first: "Measurement", second: "Measurement", path: str) -> tuple[float | None, float | None]:
    if path not in first.bootstrap or path not in second.bootstrap:
        return None, None
    values = second.bootstrap[path] - first.bootstrap[path]
    values = values[np.isfinite(values)]
    return tuple(map(float, np.quantile(values, (0.025, 0.975)))) if len(values) else (None, None)


# Bootstrap replicates of the geometry.


class BlockSums(NamedTuple):
    """Sums over the rows w of each block of token types, and over their unit rows."""

    number: np.ndarray  # BLOCKS
    length: np.ndarray  # BLOCKS, of |w|
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
        pairs = (totals[name] ** 2).sum(axis=1) - weights**2 @ sums.number
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
        np.bincount(block[ids], minlength=BLOCKS), np.zeros(BLOCKS), np.zeros((BLOCKS, width)), np.zeros((BLOCKS, width)),
        np.full(width, -np.inf), np.zeros((BLOCKS, width)),
    )  # fmt: skip
    for start, rows in zip(range(0, len(ids), BLOCK), blocks(matrix, ids), strict=True):
        indices = block[ids[start : start + len(rows)]], np.arange(len(rows))
        assigned = csr_array((np.ones(len(rows)), indices), shape=(BLOCKS, len(rows)))
        sums.length[:] += assigned @ np.linalg.norm(rows, axis=1)
        sums.unit[:] += assigned @ unit(rows)
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
