"""Measure how an embedding matrix encodes frequency: frequency probe (FRAGE), row norms and Zipfian whitening."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from raretokens.metrics.isotropy import isotropy, log_partitions, mean_cosine
from raretokens.metrics.predictions import auc
from raretokens.metrics.rows import blocks, evenly, members
from raretokens.vocabulary import FILLER, FREQ, SPECIALS

POPULAR = 0.2  # share of popular types among the used types (FRAGE section 5.1)
FOLDS = 5
PENALTY = 0.01  # L2 penalty; values from 1e-4 to 1e-1 change the accuracy by about one percentage point
LIMIT = 20_000  # rows; 20,000 rows of width 1024 take 160 MB in float64
WIDEST = 1024  # width above which fewer rows are sampled, so that memory stays bounded


def popular_types(counts: np.ndarray, groups: np.ndarray, share: float = POPULAR) -> np.ndarray:
    """Return which types are popular (N, bool): the most frequent `share` of the used types, as in objectives/frage.py.

    All other types are rare. Ties go to the lower id. Specials, including <pad>, count as the most frequent types, as in
    the frequency groups. Fillers are never popular.

    Args:
        counts: Occurrences in the training text, N.
        groups: Frequency group of each id, N.
    """
    used = np.flatnonzero(groups != FILLER)
    order = used[np.lexsort((used, -counts[used], used >= len(SPECIALS)))]
    popular = np.zeros(len(groups), dtype=bool)
    popular[order[: round(share * len(order))]] = True
    return popular


def popularity_accuracy(
    embedding: np.ndarray,
    counts: np.ndarray,
    groups: np.ndarray,
    *,
    popular: float = POPULAR,
    seed: int = 0,
    limit: int = LIMIT,
    shuffled: bool = False,
) -> tuple[dict[str, float | None], str]:
    """Frequency probe: classify rows as popular or rare by logistic regression (FRAGE section 4, discriminator retrained).

    Args:
        seed: Seed of the FOLDS stratified folds, and of the shuffling.
        limit: Largest number of rows. Larger matrices are sampled at evenly spaced rows.
        shuffled: Permute the labels at random, as a control.
    Returns:
        `accuracy`: balanced accuracy on held-out rows in percent (chance: 50). `auc`: probability that a popular row
        scores above a rare row, as the mean over folds. Both are None where a class has fewer rows than folds.

    Each discriminator minimises 1/2 (mean cross-entropy over popular rows + mean cross-entropy over rare rows)
    + PENALTY / 2 |v|^2 over its weights v (d) and a bias, on standardised columns. The loss is strictly convex in v, so
    the result does not depend on a starting point or learning rate.
    """
    limit = limit * WIDEST // max(WIDEST, embedding.shape[1])
    ids = evenly(members(groups)["total"], limit)
    is_popular = popular_types(counts, groups, popular)[ids]
    if shuffled:
        is_popular = np.random.default_rng(seed).permutation(is_popular)
    signature = f"popular:{popular:g}{'-shuffled' if shuffled else ''}|logistic|l2:{PENALTY:g}"
    signature += f"|folds:{FOLDS}|seed:{seed}|rows:no-pad-no-fillers"
    if len(ids) < len(members(groups)["total"]):
        signature += f"|evenly-spaced:{limit}"
    if min(is_popular.sum(), (~is_popular).sum()) < FOLDS:
        return {"accuracy": None, "auc": None}, signature
    fold = folds_of(is_popular, seed)
    scores = _held_out(_standardised(np.asarray(embedding[ids], dtype=np.float64)), is_popular, fold)
    right = (scores > 0) == is_popular
    accuracy = 50 * (right[is_popular].mean() + right[~is_popular].mean())
    area = np.mean([auc(scores[fold == part], is_popular[fold == part]) for part in range(FOLDS)])
    return {"accuracy": float(accuracy), "auc": float(area)}, signature


def folds_of(is_popular: np.ndarray, seed: int) -> np.ndarray:
    """Return the fold index of each row, with folds stratified by class."""
    random, fold = np.random.default_rng(seed), np.empty(len(is_popular), dtype=int)
    for rows in (np.flatnonzero(is_popular), np.flatnonzero(~is_popular)):
        fold[random.permutation(rows)] = np.arange(len(rows)) % FOLDS
    return fold


def _standardised(rows: np.ndarray) -> np.ndarray:
    """Standardise the columns in place to mean 0 and standard deviation 1; a constant column becomes zeros."""
    rows -= rows.mean(axis=0)
    deviation = rows.std(axis=0)
    return np.divide(rows, deviation, out=np.zeros_like(rows), where=deviation > 0)


def _held_out(rows: np.ndarray, is_popular: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return the score of each row by the discriminator trained on the other folds; positive means popular.

    All folds are optimised together, one column each, so that each step reads the rows once. The rows are rotated to
    their principal directions and scaled by the curvature, which reaches the same optimum in fewer steps.
    """
    n, width = rows.shape
    values, vectors = np.linalg.eigh(rows.T @ rows / n)
    scale = 1 / np.sqrt(np.maximum(values, 0) / 4 + PENALTY)
    rows = rows @ (vectors * scale)
    penalty = PENALTY * scale[:, None] ** 2  # penalty on weights along the scaled directions
    trains = fold[:, None] != np.arange(FOLDS)  # n x folds
    sizes = np.where(is_popular[:, None], trains[is_popular].sum(axis=0), trains[~is_popular].sum(axis=0))
    weight, sign = trains / (2 * sizes), np.where(is_popular, 1.0, -1.0)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum of the losses over folds, and its gradient."""
        v = flat.reshape(width + 1, FOLDS)  # the last row is the bias
        margin = sign * (rows @ v[:-1] + v[-1])
        by_score = -sign * weight * expit(-margin)
        gradient = np.vstack((rows.T @ by_score + penalty * v[:-1], by_score.sum(axis=0)))
        value = np.sum(weight * np.logaddexp(0, -margin)) + np.sum(penalty * v[:-1] ** 2) / 2
        return float(value), gradient.ravel()

    start, options = np.zeros((width + 1) * FOLDS), {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-7, "ftol": 0}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(width + 1, FOLDS)
    return (rows @ found[:-1] + found[-1])[np.arange(n), fold]


def norms(embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean Euclidean norm of popular and rare rows; embedding: N x d, or the difference of two matrices."""
    kept, popular = members(groups)["total"], popular_types(counts, groups)
    sides = {"popular": kept[popular[kept]], "rare": kept[~popular[kept]]}
    value = {name: _mean_length(embedding, ids) for name, ids in sides.items()}
    return value, f"norm:2|popular:{POPULAR:g}|rows:no-pad-no-fillers"


def _mean_length(embedding: np.ndarray, ids: np.ndarray) -> float | None:
    return float(lengths(embedding, ids).mean()) if len(ids) else None


WHITENING_LIMIT = 65_536  # largest number of rows of the whitened matrix that are measured
FLAT = 1e-7  # directions with singular values below this share of the largest are noise and left out


def lengths(embedding: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the Euclidean norm of each of the rows `ids`."""
    return np.concatenate([np.linalg.norm(block, axis=1) for block in blocks(embedding, ids)] or [np.empty(0)])


def norm_by_frequency(
    embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray
) -> tuple[dict[str, float | None], str]:
    """Mean row norm by group, and Pearson's correlation of norm and log count over the types that occur."""
    value = {name: _mean_length(embedding, ids) for name, ids in members(groups).items()}
    seen = members(groups)["total"]
    seen = seen[counts[seen] > 0]
    length, frequency = lengths(embedding, seen), np.log(counts[seen])
    varies = len(seen) > 2 and np.ptp(length) > 0 and np.ptp(frequency) > 0
    value["pearson"] = float(np.corrcoef(length, frequency)[0, 1]) if varies else None
    return value, f"norm:2|corr:pearson-log-count|types-that-occur:{len(seen)}|rows:no-pad-no-fillers"


def whitening(embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (d) and matrix (d x r) of Zipfian whitening, W' = (W - mean) matrix (Yokoi et al., 2024).

    mean = sum_k p_k w_k, rows sqrt(p_k) (w_k - mean) = U S V^T, matrix = V S^-1. p_k are the relative frequencies of
    the types that occur. Directions in which the types that occur do not differ are left out, so r may be below d.
    """
    ids = members(groups)["total"]
    ids = ids[counts[ids] > 0]
    share = counts[ids] / counts[ids].sum()
    width = embedding.shape[1]
    mean, gram, start = np.zeros(width), np.zeros((width, width)), 0
    for block in blocks(embedding, ids):
        mean += share[start : start + len(block)] @ block
        start += len(block)
    start = 0
    for block in blocks(embedding, ids):
        centred = (block - mean) * np.sqrt(share[start : start + len(block), None])
        gram += centred.T @ centred
        start += len(block)
    values, vectors = np.linalg.eigh(gram)
    kept = values > max(FLAT**2 * values[-1], 0.0)
    return mean, vectors[:, kept] / np.sqrt(values[kept])


def whitened(embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the rows `ids`, whitened and rescaled to their original mean squared norm, because I(W) depends on scale."""
    mean, matrix = whitening(embedding, counts, groups)
    before, parts = 0.0, []
    for block in blocks(embedding, ids):
        before += float(np.sum(block * block))
        parts.append((block - mean) @ matrix)
    rows = np.concatenate(parts)
    scale = np.sqrt(before / np.sum(rows * rows)) if rows.any() else 1.0
    return rows * scale, f"zipfian-whitening|directions:{matrix.shape[1]}|scale:as-before"


def zipfian_whitening(
    embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray
) -> dict[str, tuple[float | None, str]]:
    """Return I(W) and S(w) of the matrix after Zipfian whitening; empty where fewer than two types occur."""
    every = members(groups)["total"]
    if np.count_nonzero(counts[every]) < 2:
        return {}
    ids = evenly(every, WHITENING_LIMIT)
    rows, how = whitened(embedding, counts, groups, ids)
    if not rows.size:  # all types that occur have the same row
        return {}
    how += f"|evenly-spaced:{WHITENING_LIMIT}" if len(ids) < len(every) else ""
    # The metrics skip the row of <pad>, which is not among the ids, so a row of zeros takes its place.
    rows = np.insert(rows, 1, 0.0, axis=0)
    alike = np.full(len(rows), FREQ, np.int8)
    partition, by_isotropy = isotropy(log_partitions(rows, alike, ["total"]))
    cosine, by_cosine = mean_cosine(rows, alike)
    return {
        "zipfian.isotropy": (partition["total"], f"{how}|{by_isotropy}"),
        "zipfian.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }
