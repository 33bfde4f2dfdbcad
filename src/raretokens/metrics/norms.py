"""How long rows are, and how far training moved them, of popular and of rare types (FRAGE)."""

import numpy as np

from raretokens.metrics.popularity import POPULAR, popular_types
from raretokens.metrics.rows import blocks, members


def norms(table: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean Euclidean length of the rows; table: N x d, or a difference of two tables."""
    kept, popular = members(groups)["total"], popular_types(counts, groups)
    value = {
        name: _mean_length(table, kept[popular[kept] == side]) for name, side in (("popular", True), ("rare", False))
    }
    return value, f"norm:2|popular:{POPULAR:g}|rows:no-pad-no-fillers"


def _mean_length(table: np.ndarray, ids: np.ndarray) -> float | None:
    lengths = [np.linalg.norm(block, axis=1) for block in blocks(table, ids)]
    return float(np.concatenate(lengths).mean()) if len(ids) else None
