"""How often pairs of types are seen, kept sorted: memory grows with the different pairs, not with what is seen."""

import numpy as np
from scipy.sparse import csr_matrix

WAITING = 1 << 22  # pairs that are gathered before they are sorted in


class PairCounter:
    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.keys, self.counts = np.zeros(0, np.int64), np.zeros(0, np.int64)  # row * vocabulary + column, sorted
        self.waiting: list[np.ndarray] = []

    def add(self, rows: np.ndarray, columns: np.ndarray) -> None:
        self.waiting.append(rows.astype(np.int64) * self.vocabulary + columns)
        if sum(map(len, self.waiting)) > WAITING:
            self._sort_in()

    def _sort_in(self) -> None:
        new, count = np.unique(np.concatenate([self.keys[:0], *self.waiting]), return_counts=True)
        self.waiting = []
        counts = np.concatenate([self.counts, count])
        self.keys, place = np.unique(np.concatenate([self.keys, new]), return_inverse=True)
        self.counts = np.zeros(len(self.keys), np.int64)
        np.add.at(self.counts, place, counts)

    def matrix(self) -> csr_matrix:
        """vocabulary x vocabulary, int64."""
        self._sort_in()
        size = self.vocabulary
        ends = np.searchsorted(self.keys, np.arange(1, size + 1) * size)
        parts = self.counts, (self.keys % size).astype(np.int32), np.concatenate(([0], ends)).astype(np.int32)
        return csr_matrix(parts, shape=(size, size))
