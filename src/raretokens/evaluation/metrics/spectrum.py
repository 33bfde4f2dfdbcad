"""Metrics from the eigenvectors of W^T W: singular values, effective rank, IsoScore, projections, all-but-the-top, and
indicators of under-trained rows (Land and Bartolo 2024)."""

from collections.abc import Callable
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from raretokens.evaluation.metrics.rows import BLOCK, GROUPS, blocks, members, unit


@singledispatch
def eigenvectors(
    embedding: np.ndarray, ids: np.ndarray, mean: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of W^T W (d, falling) and unit eigenvectors (d x d, columns), W being the rows `ids` of the matrix.

    The sign of an eigenvector is arbitrary; each column a is turned so that sum_i w_i.a >= 0, w_i being raw rows. With
    mean (d), it is taken from every row first, so these are the principal directions. Going through the d x d matrix
    keeps memory small and loses nothing that is reported: singular values below 1e-7 of the largest are noise.
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
    """Mean of the rows `ids` (d, float64)."""
    return sum((block.sum(axis=0) for block in blocks(embedding, ids)), np.zeros(embedding.shape[1])) / len(ids)


def singular_values(embedding: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """Singular values of the uncentred matrix divided by the largest, falling (CosReg figure 2b, AGG figure 3c)."""
    ids = members(groups)["total"]
    values = np.sqrt(eigenvectors(embedding, ids)[0][: len(ids)])
    return values / values[0], "centred:no|scale:largest|rows:no-pad-no-fillers"


def effective_rank(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float], str]:
    """exp of the entropy of the singular values as shares of their sum (Roy and Vetterli 2007); between 1 and d."""
    values, _ = singular_values(embedding, groups)
    share = values[values > 0] / values.sum()
    return {"total": float(np.exp(-np.sum(share * np.log(share))))}, "centred:no|log:e|rows:no-pad-no-fillers"


def iso_score(embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """IsoScore (Rudman et al. 2022, algorithm 1): 1 where the variance is the same in all directions, 0 on a line.

    The d principal variances are scaled to length sqrt(d); their distance from (1, ..., 1) over its largest possible
    value is the defect, and the score is the share of dimensions that the defect leaves in use, from 0 to 1. None
    where all rows are the same.
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
    embedding: np.ndarray, groups: np.ndarray, *, sample: int, seed: int = 0, centred: bool = False
) -> tuple[dict[str, np.ndarray], str]:
    """W V_2: coordinates (points x 2) along the two first right singular vectors, for a sample of each group.

    At most `sample` rows a group, drawn without replacement by a fixed seed, so that runs show the same tokens. There
    is no entry for the total (the groups are drawn over one another). Centred, these are the principal components that
    the captions of AGPS speak of; the other papers do not centre.
    """
    kept, points = members(groups), {}
    mean = mean_row(embedding, kept["total"]) if centred else None
    plane = eigenvectors(embedding, kept["total"], mean)[1][:, :2]
    for name in GROUPS[1:]:
        ids = kept[name]
        if len(ids) > sample:
            ids = np.sort(np.random.default_rng(seed).choice(ids, sample, replace=False))
        rows = np.asarray(embedding[ids], dtype=np.float64)
        points[name] = (rows if mean is None else rows - mean) @ plane
    return points, f"centred:{'yes' if centred else 'no'}|sample:{sample}|seed:{seed}"


@singledispatch
def all_but_top(embedding: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the matrix (N x d, float32) without its mean row and its first principal directions (Mu and Viswanath 2018).

    v'' = v' - sum_{i <= D} (u_i.v') u_i with v' = v - mean and D = d / 100, rounded, at least 1. Mean and directions
    are those of the rows without <pad> and fillers; the other rows are treated alike.
    """
    ids, components = members(groups)["total"], max(1, round(embedding.shape[1] / 100))
    mean = mean_row(embedding, ids)
    top = eigenvectors(embedding, ids, mean)[1][:, :components]  # d x D
    processed = np.empty(embedding.shape, dtype=np.float32)
    for start in range(0, len(embedding), BLOCK):
        rows = np.asarray(embedding[start : start + BLOCK], dtype=np.float64) - mean
        processed[start : start + BLOCK] = rows - (rows @ top) @ top.T
    return processed, f"without:mean+{components}-directions"


SHARE = 0.02  # of the types that are candidates


class Indicators(NamedTuple):
    """Cosine distance of rows to the mean of the known rows, 0 to 2: the smaller, the less trained."""

    ids: np.ndarray  # n, candidates first: by rising distance
    raw: np.ndarray  # n
    centred: np.ndarray  # n; the mean row taken from both
    turned: np.ndarray  # n; the first direction taken from both
    signature: str

    @property
    def candidates(self) -> int:
        return max(1, round(SHARE * len(self.ids)))


def indicators(embedding: np.ndarray, groups: np.ndarray, known: np.ndarray, which: str) -> Indicators | None:
    """Of all used rows. known: ids of rows that are known to be untrained; which says in the signature what they are.

    The first direction is the first right singular vector of the uncentred matrix. None where `known` is empty.
    """
    ids = np.setdiff1d(members(groups)["total"], known) if which != "least-count" else members(groups)["total"]
    if not len(known) or not len(ids):
        return None
    every = members(groups)["total"]
    mean, first = mean_row(embedding, every), eigenvectors(embedding, every)[1][:, 0]
    centre = mean_row(embedding, known)

    def turned(rows: np.ndarray) -> np.ndarray:
        return rows - np.outer(rows @ first, first)

    distances = [
        _distances(embedding, ids, centre, change) for change in (lambda rows: rows, lambda rows: rows - mean, turned)
    ]
    order = np.argsort(distances[0], kind="stable")
    signature = f"distance:cosine|to:mean-of-{len(known)}-{which}|candidates:lowest-{SHARE:g}"
    raw, centred, without = (found[order] for found in distances)
    return Indicators(ids[order], raw, centred, without, signature)


def _distances(
    embedding: np.ndarray, ids: np.ndarray, centre: np.ndarray, change: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    towards = unit(change(centre[None]))[0]
    return np.concatenate([1 - unit(change(block)) @ towards for block in blocks(embedding, ids)])
