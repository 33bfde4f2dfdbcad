"""How alike the rows of the table point: S(w), rare against frequent, and inner products inside a group."""

from functools import singledispatch

import numpy as np

from raretokens.metrics.rows import blocks, members, unit


def mean_cosine(table: np.ndarray, groups: np.ndarray) -> tuple[float, str]:
    """S(w) = (1 / N^2) sum over i != j of cos(w_i, w_j) (AGPS equation 9; CosReg's penalty).

    N rows, without pad and fillers. Closed form: the double sum is |sum_i u_i|^2 less the diagonal, u_i being the unit
    rows.
    """
    ids = members(groups)["total"]
    total, diagonal = unit_sum(table, ids)
    return float((total @ total - diagonal) / len(ids) ** 2), "pairs:distinct|over:N^2|rows:no-pad-no-fillers"


def rare_freq_cosine(table: np.ndarray, groups: np.ndarray) -> tuple[float | None, str]:
    """Mean cosine between a rare and a frequent row (AGG figure 2); the product of the two mean unit vectors."""
    kept, signature = members(groups), "pairs:rare-freq|rows:no-pad-no-fillers"
    rare, freq = kept["rare"], kept["freq"]
    if not (len(rare) and len(freq)):
        return None, signature
    product = unit_sum(table, rare)[0] @ unit_sum(table, freq)[0]
    return float(product / (len(rare) * len(freq))), signature


def group_cosine(table: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean cosine of two different rows of a group; None below two rows."""
    value = {}
    for name, ids in members(groups).items():
        total, diagonal = unit_sum(table, ids)
        n = len(ids)
        value[name] = float((total @ total - diagonal) / (n * (n - 1))) if n > 1 else None
    return value, "pairs:distinct|over:n(n-1)|rows:no-pad-no-fillers"


def mean_inner_product(table: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean raw inner product of two different rows of a group (AGPS figure 2); None below two rows."""
    value = {name: _mean_inner_product(table, ids) for name, ids in members(groups).items()}
    return value, "pairs:distinct|over:n(n-1)|rows:no-pad-no-fillers"


@singledispatch
def unit_sum(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum of the unit rows (d) and sum of their squared lengths (their number, rows of zeros apart)."""
    total, diagonal = np.zeros(table.shape[1]), 0.0
    for block in blocks(table, ids):
        rows = unit(block)
        total += rows.sum(axis=0)
        diagonal += float(np.sum(rows * rows))
    return total, diagonal


@singledispatch
def raw_sum(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum of the rows (d) and sum of their squared lengths."""
    total, squares = np.zeros(table.shape[1]), 0.0
    for block in blocks(table, ids):
        total += block.sum(axis=0)
        squares += float(np.sum(block * block))
    return total, squares


def _mean_inner_product(table: np.ndarray, ids: np.ndarray) -> float | None:
    (total, squares), n = raw_sum(table, ids), len(ids)
    return float((total @ total - squares) / (n * (n - 1))) if n > 1 else None
