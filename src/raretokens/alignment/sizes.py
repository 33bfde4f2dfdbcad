"""Lengths of sentence pairs: what depends on nothing else is computed once for all pairs that have them."""

from collections.abc import Iterator

import numpy as np

from raretokens.alignment.runs import runs

POSITIONS = 1 << 18  # at a time


class Sizes:
    """Different (m, n) of a text, sorted; m: target pieces, n: source pieces of a pair."""

    def __init__(self, m: np.ndarray, n: np.ndarray) -> None:
        keys, self.count = np.unique(_key(m, n), return_counts=True)
        self.keys, self.m, self.n = keys, keys >> 32, keys & 0xFFFFFFFF
        self.first = np.cumsum(self.m) - self.m  # target positions of the sizes before
        self.tokens = int((self.count * self.m).sum())  # target pieces of the text

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, m: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Where the target positions of each pair's size start among those of all sizes."""
        return self.first[np.searchsorted(self.keys, _key(m, n))]

    def parts(self) -> Iterator[tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]:
        """(j, m, n) of each target position of each size, float64, and how many pairs have that size."""
        for start, end in runs(self.first // POSITIONS):
            m = self.m[start:end]
            j = np.arange(m.sum()) - np.repeat(np.cumsum(m) - m, m) + 1
            m, n, count = (np.repeat(of_size[start:end], m) for of_size in (self.m, self.n, self.count))
            yield (j.astype(np.float64), m.astype(np.float64), n.astype(np.float64)), count


def _key(m: np.ndarray, n: np.ndarray) -> np.ndarray:
    return m.astype(np.int64) << 32 | n
