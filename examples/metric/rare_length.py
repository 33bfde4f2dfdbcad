"""Length of rare rows beside that of frequent ones. An example of a metric of one's own."""

import numpy as np

from raretokens.evaluation.metrics.rows import members


def rare_length(table: np.ndarray, groups: np.ndarray) -> tuple[float | None, str]:
    """Mean length of a rare row over that of a frequent one; None where a group is empty."""
    ids = members(groups)
    rare, frequent = (np.linalg.norm(table[ids[group]], axis=1) for group in ("rare", "freq"))
    ratio = float(rare.mean() / frequent.mean()) if len(rare) and len(frequent) else None
    return ratio, "norm:2|rows:no-pad-no-fillers"
