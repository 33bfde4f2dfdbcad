"""Work in parts."""

import numpy as np


def runs(labels: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of each run of equal labels."""
    if not len(labels):
        return []
    bounds = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))
