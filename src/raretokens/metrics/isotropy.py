"""Measure the isotropy of an embedding matrix: I(W), and mean cosines and inner products of its rows."""

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np
from scipy.special import logsumexp

from raretokens.metrics.rows import BLOCK, GROUPS, blocks, evenly, members, unit
from raretokens.metrics.spectrum import eigenvectors

Partition = tuple[np.ndarray, np.ndarray]  # log Z(a) and log Z(-a) of the d eigenvectors a
Partitions = dict[str, Partition | None]


def log_partitions(embedding: np.ndarray, groups: np.ndarray, names: Sequence[str] = GROUPS) -> Partitions:
    """Return group -> log Z(a) and log Z(-a) for the d unit eigenvectors a of W^T W; None for an empty group.

    Z(a) = sum_i exp(w_i . a), where W are the raw rows w_i of the group alone. Each a is oriented so that
    sum_i w_i . a >= 0. The sums are in float64. Both versions of I(W) share this expensive step.
    """
    kept = members(groups)
    return {name: log_partition(embedding, kept[name])[0] if len(kept[name]) else None for name in names}


def scaled_log_partitions(
    embedding: np.ndarray, groups: np.ndarray, lengths: Mapping[str, float | None]
) -> tuple[Partitions, Partitions]:
    """Return log_partitions() of the raw rows, and of the rows divided by the length of their group.

    lengths: Group -> length. A group whose length is 0 or None has no partitions of divided rows.
    """
    raw, scaled = {}, {}
    for name, ids in members(groups).items():
        scales = (1.0, 1 / lengths[name]) if lengths[name] else (1.0,)
        found = log_partition(embedding, ids, scales) if len(ids) else []
        raw[name], scaled[name] = (*found, None, None)[:2]
    return raw, scaled


def isotropy(partitions: Partitions) -> tuple[dict[str, float | None], str]:
    """I(W) = min_a Z(a) / max_a Z(a), at most 1, over one orientation of each eigenvector (AGG equation 3)."""
    value = {name: None if both is None else _ratio(both[0]) for name, both in partitions.items()}
    return value, "directions:eigenvectors|sign:sum>=0|rows:no-pad-no-fillers"


def isotropy_both_signs(partitions: Partitions) -> tuple[dict[str, float | None], str]:
    """I(W) over both a and -a. The papers leave the sign open, and it matters most for degenerate matrices."""
    value = {name: None if both is None else _ratio(np.concatenate(both)) for name, both in partitions.items()}
    return value, "directions:eigenvectors|sign:both|rows:no-pad-no-fillers"


def isotropy_unit_rms(partitions: Partitions) -> tuple[dict[str, float | None], str]:
    """I(W) of rows divided by their root-mean-square length, which does not depend on the scale of the matrix.

    partitions: Those of the divided rows, from scaled_log_partitions() and rms_norms().
    """
    value, signature = isotropy(partitions)
    return value, f"rows-over:rms-length-of-group|{signature}"


@singledispatch
def log_partition(embedding: np.ndarray, ids: np.ndarray, scales: Sequence[float] = (1.0,)) -> list[Partition]:
    """Return log Z(a) and log Z(-a) of the rows `ids` times each of the scales."""
    vectors = eigenvectors(embedding, ids)[1]
    log_z = np.full((len(scales), 2, vectors.shape[1]), -np.inf)
    for block in blocks(embedding, ids):
        projected = block @ vectors  # rows x directions
        for scale, (plus, minus) in zip(scales, log_z, strict=True):
            plus[:] = np.logaddexp(plus, logsumexp(scale * projected, axis=0))
            minus[:] = np.logaddexp(minus, logsumexp(-scale * projected, axis=0))
    return [(plus, minus) for plus, minus in log_z]


def _ratio(log_z: np.ndarray) -> float:
    return float(np.exp(log_z.min() - log_z.max()))


def mean_cosine(embedding: np.ndarray, groups: np.ndarray) -> tuple[float, str]:
    """S(w) = (1 / N^2) sum over i != j of cos(w_i, w_j), without <pad> and fillers (AGPS equation 9; CosReg's penalty).

    The double sum is computed as |sum_i u_i|^2 minus its diagonal, where u_i are the unit rows.
    """
    ids = members(groups)["total"]
    total, diagonal = vector_sum(embedding, ids)
    return float((total @ total - diagonal) / len(ids) ** 2), "pairs:distinct|over:N^2|rows:no-pad-no-fillers"


def rare_freq_cosine(embedding: np.ndarray, groups: np.ndarray) -> tuple[float | None, str]:
    """Mean cosine between rare and frequent rows (AGG figure 2); None where a group is empty.

    The mean equals the inner product of the two groups' mean unit vectors.
    """
    kept, signature = members(groups), "pairs:rare-freq|rows:no-pad-no-fillers"
    rare, freq = kept["rare"], kept["freq"]
    if not (len(rare) and len(freq)):
        return None, signature
    product = vector_sum(embedding, rare)[0] @ vector_sum(embedding, freq)[0]
    return float(product / (len(rare) * len(freq))), signature


def group_cosine(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean cosine of two different rows of each group; None for a group with fewer than two rows."""
    value = {name: _mean_over_pairs(*vector_sum(embedding, ids), len(ids)) for name, ids in members(groups).items()}
    return value, "pairs:distinct|over:n(n-1)|rows:no-pad-no-fillers"


def mean_inner_product(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean inner product of two different raw rows of each group (AGPS figure 2); None with fewer than two rows."""
    sums = {name: (*vector_sum(embedding, ids, True), len(ids)) for name, ids in members(groups).items()}
    value = {name: _mean_over_pairs(*of_group) for name, of_group in sums.items()}
    return value, "pairs:distinct|over:n(n-1)|rows:no-pad-no-fillers"


def rms_norms(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Root-mean-square length of the rows of each group; None for an empty group."""
    squares = {name: (vector_sum(embedding, ids, True)[1], len(ids)) for name, ids in members(groups).items()}
    value = {name: float(np.sqrt(total / n)) if n else None for name, (total, n) in squares.items()}
    return value, "norm:2|mean:root-mean-square|rows:no-pad-no-fillers"


@singledispatch
def vector_sum(embedding: np.ndarray, ids: np.ndarray, raw: bool = False) -> tuple[np.ndarray, float]:
    """Return the sum of the unit rows, or raw rows (d), and the sum of their squared lengths."""
    total, squares = np.zeros(embedding.shape[1]), 0.0
    for block in blocks(embedding, ids):
        rows = block if raw else unit(block)
        total += rows.sum(axis=0)
        squares += float(np.sum(rows * rows))
    return total, squares


def _mean_over_pairs(total: np.ndarray, squares: float, n: int) -> float | None:
    """Return the mean inner product of two different rows, from the sums over all n rows."""
    return float((total @ total - squares) / (n * (n - 1))) if n > 1 else None


LIMIT = 8192  # rows per group, which make 33.5 million pairs
NOUGHT = 1e-12  # cosines up to this value are rounding errors


def positive_cosine(
    embedding: np.ndarray, groups: np.ndarray, *, limit: int = LIMIT
) -> tuple[dict[str, float | None], str]:
    """Share of pairs of different rows of each group whose cosine is above 0 (CosReg section 3.2).

    The value is None for a group with fewer than two rows. A row of zeros has a positive cosine with no row. A group of
    more than `limit` rows is sampled at evenly spaced rows, and the signature then records the limit.
    """
    kept = members(groups)
    value = {name: _share(embedding, evenly(ids, limit)) for name, ids in kept.items()}
    thinned = f"|evenly-spaced:{limit}" if max(map(len, kept.values())) > limit else ""
    return value, f"pairs:distinct|rows:no-pad-no-fillers{thinned}"


def _share(embedding: np.ndarray, ids: np.ndarray) -> float | None:
    n = len(ids)
    if n < 2:
        return None
    vectors = np.concatenate([unit(block) for block in blocks(embedding, ids)])
    positive = 0
    for start in range(0, n, BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors[start:].T
        positive += int(np.triu(cosines > NOUGHT, 1).sum())  # each pair once
    return positive / (n * (n - 1) / 2)
