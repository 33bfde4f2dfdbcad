"""Compute metrics from the eigenvectors of W^T W: singular values, effective rank, IsoScore, projections, all-but-the-top."""

from functools import singledispatch

import numpy as np

from raretokens.metrics.rows import BLOCK, GROUPS, blocks, members


@singledispatch
def eigenvectors(
    embedding: np.ndarray, ids: np.ndarray, mean: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues (d, falling) and unit eigenvectors (d x d, columns) of W^T W, where W are the rows `ids`.

    Each eigenvector a is oriented so that sum_i w_i.a >= 0 over the raw rows w_i. If mean (d) is given, it is subtracted
    from every row first, which gives the principal directions. The d x d matrix needs little memory. It only loses singular
    values below 1e-7 of the largest, which are noise.
    """
    width = embedding.shape[1]
    gram, total = np.zeros((width, width)), np.zeros(width)
    for block in blocks(embedding, ids):
        total += block.sum(axis=0)
        centred = block if mean is None else block - mean
        gram += centred.T @ centred
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.maximum(values, 0.0), vectors * np.where(total @ vectors < 0, -1.0, 1.0)


@singledispatch
def mean_row(embedding: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the mean of the rows `ids` (d, float64)."""
    return sum((block.sum(axis=0) for block in blocks(embedding, ids)), np.zeros(embedding.shape[1])) / len(ids)


def singular_values(embedding: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """Singular values of the uncentred matrix, divided by the largest and falling (CosReg figure 2b, AGG figure 3c)."""
    ids = members(groups)["total"]
    values = np.sqrt(eigenvectors(embedding, ids)[0][: len(ids)])
    return values / values[0], "centred:no|scale:largest|rows:no-pad-no-fillers"


def effective_rank(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """Effective rank, from 1 to d: exp of the entropy of the normalised singular values (Roy and Vetterli 2007)."""
    values, _ = singular_values(embedding, groups)
    share = values[values > 0] / values.sum()
    return {"total": float(np.exp(-np.sum(share * np.log(share))))}, "centred:no|log:e|rows:no-pad-no-fillers"


def iso_score(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """IsoScore (Rudman et al. 2022, algorithm 1): 1 for equal variance in all directions, 0 for rows on a line.

    The vector of the d principal variances is scaled to norm sqrt(d). The isotropy defect is its distance from (1, ..., 1),
    divided by the largest possible distance. The score is the share of dimensions in use that follows from the defect,
    rescaled to 0 to 1. None where all rows are the same.
    """
    ids, width = members(groups)["total"], embedding.shape[1]
    variances = eigenvectors(embedding, ids, mean_row(embedding, ids))[0]
    signature = "centred:yes|rows:no-pad-no-fillers"
    if not variances.any():
        return {"total": None}, signature
    scaled = np.sqrt(width) * variances / np.linalg.norm(variances)
    free = width - np.sqrt(width)
    defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * free)
    used = (width - defect**2 * free) ** 2 / width**2
    return {"total": float((width * used - 1) / (width - 1))}, signature


def projection(
    embedding: np.ndarray, groups: np.ndarray, *, sample: int, centred: bool = False
) -> tuple[dict[str, np.ndarray], str]:
    """Return group -> coordinates W V_2 (points x 2) along the first two right singular vectors, without the total.

    Args:
        sample: Largest number of rows per group, sampled without replacement. The seed is fixed, so that runs with the same
            vocabulary show the same tokens.
        centred: Subtract the mean row first. This gives principal components, which the captions of AGPS name. The other
            papers do not centre.
    """
    kept, points = members(groups), {}
    mean = mean_row(embedding, kept["total"]) if centred else None
    plane = eigenvectors(embedding, kept["total"], mean)[1][:, :2]
    for name in GROUPS[1:]:
        ids = kept[name]
        if len(ids) > sample:
            ids = np.sort(np.random.default_rng(0).choice(ids, sample, replace=False))
        rows = np.asarray(embedding[ids], dtype=np.float64)
        points[name] = (rows if mean is None else rows - mean) @ plane
    return points, f"centred:{'yes' if centred else 'no'}|sample:{sample}|seed:0"


@singledispatch
def all_but_top(embedding: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """Remove the mean row and the first principal directions from the matrix (Mu and Viswanath 2018); N x d, float32.

    v'' = v' - sum_{i <= D} (u_i.v') u_i with v' = v - mean and D = d / 100, rounded, at least 1. The mean and the
    directions u_i exclude <pad> and fillers, but are removed from all rows.
    """
    ids, components = members(groups)["total"], max(1, round(embedding.shape[1] / 100))
    mean = mean_row(embedding, ids)
    top = eigenvectors(embedding, ids, mean)[1][:, :components]  # d x D
    processed = np.empty(embedding.shape, dtype=np.float32)
    for start in range(0, len(embedding), BLOCK):
        rows = np.asarray(embedding[start : start + BLOCK], dtype=np.float64) - mean
        processed[start : start + BLOCK] = rows - (rows @ top) @ top.T
    return processed, f"without:mean+{components}-directions"
