"""Which source types meet which target types in a sentence pair: a bit for every two types, and ranks to count them by."""

import numpy as np

from raretokens.alignment.runs import runs


class Cells:
    """Pairs of types that meet, in rows by source type, within a row by target type; `find` says where one is.

    A bit and a rank for 64 of them: a quarter of a byte for every two types, in place of 8 bytes for each pair that meets.
    """

    def __init__(self, meets: np.ndarray) -> None:
        """meets: bool, source types x target types; may be given up afterwards."""
        self.shape = meets.shape
        packed = np.packbits(meets.reshape(-1), bitorder="little")
        padded = np.zeros(-(-packed.size // 8) * 8 + 8, np.uint8)  # one word more, so that the end has a place
        padded[: packed.size] = packed
        self.words = padded.view("<u8")  # 64 pairs of types each
        counts = np.cumsum(np.bitwise_count(self.words), dtype=np.int64)
        self.before = np.concatenate(([0], counts[:-1]))  # cells before each word
        self.starts = self.rank(np.arange(self.shape[0] + 1) * self.shape[1])  # first cell of each row, and the end

    def __len__(self) -> int:
        return int(self.starts[-1])

    def rank(self, place: np.ndarray) -> np.ndarray:
        """int64: cells before a place, source type * target types + target type: the cell itself where they meet."""
        word = place >> 6
        bits = self.words.take(word)
        bits &= (np.uint64(1) << (place & 63).astype(np.uint64)) - np.uint64(1)
        return self.before.take(word) + np.bitwise_count(bits)

    def rows(self, most: int) -> list[tuple[int, int]]:
        """The rows in ranges with about `most` cells, at least one row each."""
        return runs(self.starts[:-1] // most)
