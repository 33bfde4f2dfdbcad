"""Select the rows of an embedding matrix that a metric uses, and read them in blocks."""

from collections.abc import Iterator

import numpy as np

from raretokens.vocabulary import FILLER, GROUP_NAMES, PAD

GROUPS = ("total", *GROUP_NAMES)
BLOCK = 1024  # rows; 1024 rows of width 1024 are 8 MiB in float64


def members(groups: np.ndarray) -> dict[str, np.ndarray]:
    """Return the ids of each group in rising order, without <pad> and fillers, which no text trains.

    groups: Frequency group of each id, N.
    """
    seen = groups != FILLER
    seen[PAD] = False
    kept = {"total": np.flatnonzero(seen)}
    return kept | {name: np.flatnonzero(seen & (groups == code)) for name, code in GROUP_NAMES.items()}


def evenly(ids: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` of the ids, evenly spaced, including the first and the last."""
    return ids[np.linspace(0, len(ids) - 1, min(len(ids), most)).round().astype(int)]


def blocks(embedding: np.ndarray, ids: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows `ids` of the matrix in blocks, as float64."""
    for start in range(0, len(ids), BLOCK):
        yield np.asarray(embedding[ids[start : start + BLOCK]], dtype=np.float64)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; a row of zeros stays zero, so that its cosine with anything is 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
