"""I(W): how evenly the partition function behaves along the directions of the embedding space."""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
from scipy.special import logsumexp

from raretokens.metrics.rows import GROUPS, blocks, members
from raretokens.metrics.spectrum import eigenvectors

Partitions = dict[str, tuple[np.ndarray, np.ndarray] | None]


def log_partitions(table: np.ndarray, groups: np.ndarray, names: Sequence[str] = GROUPS) -> Partitions:
    """For each group, log Z(a) and log Z(-a) for the d unit eigenvectors a of W^T W; None for an empty group.

    Z(a) = sum_i exp(w_i . a) over the raw rows of the group alone, a being the eigenvectors of that sub-matrix,
    oriented so that sum_i w_i . a >= 0. float64, in row blocks; this is the expensive step that both versions of I(W)
    share.
    """
    kept = members(groups)
    return {name: of_rows(table, kept[name]) if len(kept[name]) else None for name in names}


def isotropy(partitions: Partitions) -> tuple[dict[str, float | None], str]:
    """I(W) = min_a Z(a) / max_a Z(a), at most 1, one orientation of each eigenvector (AGG equation 3)."""
    value = {name: None if both is None else _ratio(both[0]) for name, both in partitions.items()}
    return value, "directions:eigenvectors|sign:sum>=0|rows:no-pad-no-fillers"


def isotropy_both_signs(partitions: Partitions) -> tuple[dict[str, float | None], str]:
    """The same over a and -a. The papers leave the sign open; the two versions differ most on degenerate tables."""
    value = {name: None if both is None else _ratio(np.concatenate(both)) for name, both in partitions.items()}
    return value, "directions:eigenvectors|sign:both|rows:no-pad-no-fillers"


@singledispatch
def of_rows(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Z(a) and log Z(-a) of the rows `ids`."""
    vectors = eigenvectors(table, ids)[1]
    plus, minus = np.full((2, vectors.shape[1]), -np.inf)
    for block in blocks(table, ids):
        projected = block @ vectors  # rows x directions
        plus = np.logaddexp(plus, logsumexp(projected, axis=0))
        minus = np.logaddexp(minus, logsumexp(-projected, axis=0))
    return plus, minus


def _ratio(log_z: np.ndarray) -> float:
    return float(np.exp(log_z.min() - log_z.max()))
