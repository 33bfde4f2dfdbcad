"""Pairs of positions of a block of sentence pairs, flat: what fast_align does for each of them is done to all at once."""

from functools import cached_property

import numpy as np

from raretokens.alignment.text import Side


class Positions:
    """For each target token, a row, NULL and the source positions of its sentence pair, in the order of the text."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target
        n, m = source.lengths, target.lengths
        first = np.cumsum(n + 1) - n - 1  # of each sentence, in `heads`
        self.heads = np.zeros(
            n.sum() + len(n), np.int64
        )  # source types moved by one, each sentence with NULL (0) in front
        self.heads[np.arange(len(source.types)) + np.repeat(np.arange(len(n)) + 1, n)] = source.types + 1
        self.share = (np.arange(len(self.heads)) - np.repeat(first, n + 1)) / np.repeat(n, n + 1)  # i / n
        self.j = np.arange(len(target.types)) - np.repeat(np.cumsum(m) - m, m) + 1  # of each row, from 1
        self.widths = self.by_row(n + 1)
        self.starts = np.cumsum(self.widths) - self.widths
        self.head = np.arange(self.widths.sum()) + self.spread(self.by_row(first) - self.starts)  # place in `heads`

    def __len__(self) -> int:
        """Pairs of positions without NULL."""
        return len(self.head) - len(self.widths)

    def by_row(self, of_pair: np.ndarray) -> np.ndarray:
        """For each row what its sentence pair has."""
        return np.repeat(of_pair, self.target.lengths)

    def spread(self, of_row: np.ndarray) -> np.ndarray:
        """For each pair of positions what its row has."""
        return np.repeat(of_row, self.widths)

    @cached_property
    def row(self) -> np.ndarray:
        return self.spread(np.arange(len(self.widths)))

    def place(self, target_types: int) -> np.ndarray:
        """Source type * target types + target type."""
        return (self.heads * target_types).take(self.head) + self.spread(self.target.types)

    def h(self, back: int = 0) -> np.ndarray:
        """-|i / n - (j - back) / m|; anything for NULL."""
        return -np.abs(self.share.take(self.head) - self.spread((self.j - back) / self.by_row(self.target.lengths)))
