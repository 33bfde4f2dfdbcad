"""Which source types meet which target types in a sentence pair: a bit for every two types, and ranks to count them by."""

from collections.abc import Iterable

import numpy as np

from raretokens.alignment.runs import runs


class Cells:
    """Pairs of types that meet, in rows by source type, within a row by target type; `rank` numbers them.

    A place is source type * target types + target type. A quarter of a byte for every place (a bit, and a rank for 64 of
    them) stands in for the 8 bytes that a sorted list would take for each pair that meets.
    """

    def __init__(self, source_types: int, target_types: int, places: Iterable[np.ndarray]) -> None:
        """places: where types meet, in parts of any size and order, each as often as it likes."""
        self.shape = source_types, target_types
        self.words = np.zeros(source_types * target_types // 64 + 1, "<u8")
        marks = self.words.view(np.uint8)
        for part in places:
            byte, bit = part >> 3, (part & 7).astype(np.uint8)
            for number in range(8):  # places that are there twice do no harm where all set the same bit
                marks[byte[bit == number]] |= 1 << number
        self.before = np.zeros(len(self.words) + 1, np.int64)  # cells before each word
        np.cumsum(np.bitwise_count(self.words), out=self.before[1:])
        self.starts = self.rank(np.arange(source_types + 1) * target_types)  # first cell of each row, and the end

    def __len__(self) -> int:
        return int(self.starts[-1])

    def rank(self, place: np.ndarray) -> np.ndarray:
        """int64: cells before each place, which is the number of its own cell where the types meet."""
        word = place >> 6
        bits = self.words.take(word)
        bits &= (np.uint64(1) << (place & 63).astype(np.uint64)) - np.uint64(1)
        return self.before.take(word) + np.bitwise_count(bits)

    def rows(self, most: int) -> list[tuple[int, int]]:
        """The rows in ranges with about `most` cells, at least one row each."""
        return runs(self.starts[:-1] // most)
