"""All-but-the-top: the table without what nearly all of its rows share, as a measure of how much that is."""

from functools import singledispatch

import numpy as np

from raretokens.metrics.rows import BLOCK, members
from raretokens.metrics.spectrum import eigenvectors, mean_row


@singledispatch
def all_but_top(table: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """The table (N x d, float32) less its mean row and less its first principal directions (Mu and Viswanath 2018).

    v'' = v' - sum_{i <= D} (u_i.v') u_i with v' = v - mean and D = d / 100, rounded, at least 1. Mean and directions
    are those of the rows without <pad> and fillers; the other rows are treated alike.
    """
    ids, components = members(groups)["total"], max(1, round(table.shape[1] / 100))
    mean = mean_row(table, ids)
    top = eigenvectors(table, ids, mean)[1][:, :components]  # d x D
    processed = np.empty(table.shape, dtype=np.float32)
    for start in range(0, len(table), BLOCK):
        rows = np.asarray(table[start : start + BLOCK], dtype=np.float64) - mean
        processed[start : start + BLOCK] = rows - (rows @ top) @ top.T
    return processed, f"without:mean+{components}-directions"
