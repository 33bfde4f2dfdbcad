"""Inner products of final hidden states and rows of the output embedding (AGPS section 2.1, CosReg theorem 2)."""

import numpy as np

from raretokens.evaluation.metrics.rows import blocks, members, unit


def negative_products(hidden: np.ndarray, embedding: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Return the share of pairs of a hidden state and a row whose inner product is negative, by frequency group of the row.

    Args:
        hidden: final hidden states, T x d.
        embedding: output embedding, N x d.
        groups: frequency group of each row, N.
    """
    states = hidden.astype(np.float64)

    def share(ids: np.ndarray) -> float:
        return float(sum((states @ rows.T < 0).sum() for rows in blocks(embedding, ids)) / (len(states) * len(ids)))

    value = {name: share(ids) if len(ids) else None for name, ids in members(groups).items()}
    return value, f"of:hidden-state-and-row|states:{len(states)}|rows:no-pad-no-fillers"


def hull_distance(hidden: np.ndarray) -> tuple[dict[str, float], str]:
    """Return the distance of the origin from the convex hull of the hidden states, each scaled to length 1; 0 inside the hull.

    By theorem 2 of CosReg some direction has a negative inner product with every hidden state if and only if the hull excludes
    the origin. The hull of 2 d random vectors excludes it with a probability of 1/2, that of many more almost never (Cover 1965).

    Args:
        hidden: final hidden states, T x d.
    """
    from scipy.optimize import nnls

    states = unit(hidden.astype(np.float64))
    # With weights w >= 0 the least |states.T w|^2 + (sum of w - 1)^2 is D^2 / (1 + D^2), where D is the distance.
    _, rest = nnls(np.vstack([states.T, np.ones(len(states))]), np.r_[np.zeros(states.shape[1]), 1.0], maxiter=30 * len(states))
    return {"total": float(rest / np.sqrt(1 - rest**2))}, f"of:hidden-states|states:{len(states)}|length:1"
