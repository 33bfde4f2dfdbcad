"""Popularity: does a finished table say of a row whether its type is a popular one?"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from raretokens.metrics.rows import evenly, members
from raretokens.subword.vocabulary import FILLER, SPECIALS

POPULAR = 0.2  # share of the types (FRAGE section 5.1)
FOLDS = 5
PENALTY = 0.01  # L2, on weights of standardised rows; between 1e-4 and 1e-1 the accuracy moves by about a point
LIMIT = 20_000  # rows; 20,000 rows of width 1024 are 160 MB in float64
WIDEST = 1024  # of wider tables fewer rows, so that they take no more memory


def popular_types(counts: np.ndarray, groups: np.ndarray, share: float = POPULAR) -> np.ndarray:
    """N, bool: the most frequent `share` of the used types, as objectives/frage.py takes them; all others are rare.

    counts: N, occurrences in the training text; ties go to the lower id. Specials count as the most frequent, as in the
    groups. Fillers are not used; <pad> takes a place among the specials, though no metric looks at its row.
    """
    used = np.flatnonzero(groups != FILLER)
    order = used[np.lexsort((used, -counts[used], used >= len(SPECIALS)))]
    popular = np.zeros(len(groups), dtype=bool)
    popular[order[: round(share * len(order))]] = True
    return popular


def popularity_accuracy(
    table: np.ndarray,
    counts: np.ndarray,
    groups: np.ndarray,
    *,
    popular: float = POPULAR,
    seed: int = 0,
    limit: int = LIMIT,
    shuffled: bool = False,
) -> tuple[dict[str, float | None], str]:
    """How well a logistic regression tells popular from rare rows (the discriminator of FRAGE, section 4, trained anew).

    `accuracy` is balanced, in percent: the mean of the share of popular rows and the share of rare rows that are put on
    their side, so 50 says that the table does not tell. `auc` is the chance that a popular row scores above a rare one,
    the mean over folds. Both are of held-out rows: FOLDS folds, each with its share of both classes, drawn by the seed.
    With `shuffled`, the control: rows are called popular at random, as many as are; what the table can seem to tell then is
    chance. None where a class has fewer rows than folds. Above `limit` rows, evenly spaced ones stand for all.

    Each discriminator minimises 1/2 (mean cross-entropy over popular rows + the same over rare rows)
    + PENALTY / 2 |v|^2 over its weights v (d) and a bias, on rows that are standardised column by column. That is
    strictly convex in v, so the answer depends on no starting point and no learning rate.
    """
    limit = limit * WIDEST // max(WIDEST, table.shape[1])
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
    scores = _held_out(_standardised(np.asarray(table[ids], dtype=np.float64)), is_popular, fold)
    right = (scores > 0) == is_popular
    accuracy = 50 * (right[is_popular].mean() + right[~is_popular].mean())
    auc = np.mean([_auc(scores[fold == part], is_popular[fold == part]) for part in range(FOLDS)])
    return {"accuracy": float(accuracy), "auc": float(auc)}, signature


def folds_of(is_popular: np.ndarray, seed: int) -> np.ndarray:
    """Number of each row's fold; the folds have as many rows of a class as can be."""
    random, fold = np.random.default_rng(seed), np.empty(len(is_popular), dtype=int)
    for rows in (np.flatnonzero(is_popular), np.flatnonzero(~is_popular)):
        fold[random.permutation(rows)] = np.arange(len(rows)) % FOLDS
    return fold


def _standardised(rows: np.ndarray) -> np.ndarray:
    """Columns less their mean over their deviation; a constant column becomes zeros."""
    rows -= rows.mean(axis=0)
    deviation = rows.std(axis=0)
    return np.divide(rows, deviation, out=np.zeros_like(rows), where=deviation > 0)


def _held_out(rows: np.ndarray, is_popular: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Score of each row by the discriminator that has not seen its fold; positive says popular.

    The folds are solved at once, a column each, so that the rows are read once a step. Steps are taken along the
    principal directions, each scaled by its curvature: the same optimum, in fewer steps.
    """
    n, width = rows.shape
    values, vectors = np.linalg.eigh(rows.T @ rows / n)
    scale = 1 / np.sqrt(np.maximum(values, 0) / 4 + PENALTY)
    rows = rows @ (vectors * scale)
    penalty = PENALTY * scale[:, None] ** 2  # of the weights along the scaled directions
    trains = fold[:, None] != np.arange(FOLDS)  # n x folds
    sizes = np.where(is_popular[:, None], trains[is_popular].sum(axis=0), trains[~is_popular].sum(axis=0))
    weight, sign = trains / (2 * sizes), np.where(is_popular, 1.0, -1.0)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Sum of the folds' losses and its gradient."""
        v = flat.reshape(width + 1, FOLDS)  # the last row is the bias
        margin = sign * (rows @ v[:-1] + v[-1])
        by_score = -sign * weight * expit(-margin)
        gradient = np.vstack((rows.T @ by_score + penalty * v[:-1], by_score.sum(axis=0)))
        value = np.sum(weight * np.logaddexp(0, -margin)) + np.sum(penalty * v[:-1] ** 2) / 2
        return float(value), gradient.ravel()

    start, options = np.zeros((width + 1) * FOLDS), {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-7, "ftol": 0}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(width + 1, FOLDS)
    return (rows @ found[:-1] + found[-1])[np.arange(n), fold]


def _auc(scores: np.ndarray, is_popular: np.ndarray) -> float:
    """Share of pairs of a popular and a rare row in which the popular one scores higher; half of the ties."""
    first, other = int(is_popular.sum()), int((~is_popular).sum())
    return float((rankdata(scores)[is_popular].sum() - first * (first + 1) / 2) / (first * other))
