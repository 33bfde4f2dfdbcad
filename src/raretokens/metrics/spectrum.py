"""Eigenvectors of W^T W, and what is read off them: singular values and the two-dimensional projection."""

import numpy as np

from raretokens.metrics.rows import GROUPS, blocks, members


def eigenvectors(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of W^T W (d, falling) and unit eigenvectors (d x d, columns), W being the rows `ids` of the table.

    The sign of an eigenvector is arbitrary; each column a is turned so that sum_i w_i.a >= 0. Going through the d x d
    matrix keeps memory small and loses nothing that is reported: singular values below 1e-7 of the largest are noise.
    """
    width = table.shape[1]
    gram, total = np.zeros((width, width)), np.zeros(width)
    for block in blocks(table, ids):
        gram += block.T @ block
        total += block.sum(axis=0)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.maximum(values, 0.0), vectors * np.where(total @ vectors < 0, -1.0, 1.0)


def singular_values(table: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """Singular values of the uncentred table divided by the largest, falling (CosReg figure 2b, AGG figure 3c)."""
    ids = members(groups)["total"]
    values = np.sqrt(eigenvectors(table, ids)[0][: len(ids)])
    return values / values[0], "centred:no|scale:largest|rows:no-pad-no-fillers"


def projection(
    table: np.ndarray, groups: np.ndarray, *, sample: int, seed: int = 0
) -> tuple[dict[str, np.ndarray], str]:
    """W V_2: coordinates (points x 2) along the two first right singular vectors, for a sample of each group.

    At most `sample` rows a group, drawn without replacement by a fixed seed, so that runs show the same tokens. There
    is no entry for the total (the groups are drawn over one another).
    """
    kept, points = members(groups), {}
    plane = eigenvectors(table, kept["total"])[1][:, :2]
    for name in GROUPS[1:]:
        ids = kept[name]
        if len(ids) > sample:
            ids = np.sort(np.random.default_rng(seed).choice(ids, sample, replace=False))
        points[name] = np.asarray(table[ids], dtype=np.float64) @ plane
    return points, f"centred:no|sample:{sample}|seed:{seed}"
