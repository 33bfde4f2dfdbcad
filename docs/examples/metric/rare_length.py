"""Length of rare rows compared with that of frequent rows. Example of a metric."""

import numpy as np

from raretokens.metrics.rows import members


def rare_length(embedding: np.ndarray, groups: np.ndarray) -> tuple[float | None, str]:
    """Mean length of a rare row divided by that of a frequent row; None where a group is empty."""
    ids = members(groups)
    rare, frequent = (np.linalg.norm(embedding[ids[group]], axis=1) for group in ("rare", "freq"))
    ratio = float(rare.mean() / frequent.mean()) if len(rare) and len(frequent) else None
    return ratio, "norm:2|rows:no-pad-no-fillers"
