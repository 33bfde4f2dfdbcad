"""The sentence pairs that are aligned, read from the token file block by block; their types numbered as they come up."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from raretokens.alignment.runs import runs
from raretokens.tokenization.token_files import Bitext

LONGEST = 1024  # pieces of a side, as in sil-thot: longer pairs are left out, so none can stop the alignment
POSITIONS = 1 << 18  # pairs of positions in a block: a dozen arrays of 2 MB, which stay near the processor
BATCH = 10_000  # pairs; sil-thot adds up within a batch first


@dataclass(frozen=True)
class Side:
    """One side of a block of pairs. types: from 0, numbered in the order of the whole text; lengths: of each sentence."""

    types: np.ndarray  # int64, tokens
    lengths: np.ndarray  # int64, pairs


class Text:
    """Chosen pairs: at most `most`, evenly spaced, both sides with 1 to LONGEST pieces (without the end mark)."""

    def __init__(self, bitext: Bitext, most: int | None = None) -> None:
        chosen = min(most or len(bitext), len(bitext))
        numbers = np.arange(chosen) * len(bitext) // max(chosen, 1)
        lengths = bitext.lengths[numbers] - 1
        empty, long = (lengths == 0).any(1), (lengths > LONGEST).any(1)
        self.empty, self.long = int(empty.sum()), int((long & ~empty).sum())  # pairs left out
        kept = ~(empty | long)
        self.ids, self.starts, self.lengths = bitext.ids, bitext.starts[numbers[kept]], lengths[kept]  # pairs x 2
        self.blocks = _blocks(self.lengths)
        self.known = [self._numbered(side) for side in (0, 1)]  # ids of the types of each side, in order
        self.numbers = [_inverse(known) for known in self.known]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> list[int]:
        """Of source and target."""
        return self.lengths.sum(0).tolist()

    @property
    def positions(self) -> int:
        """Pairs of a source and a target position in the same sentence pair."""
        return int(self.lengths.prod(1).sum())

    def side(self, side: int, block: slice) -> Side:
        return Side(self.numbers[side][self.ids_of(side, block)], self.lengths[block, side])

    def ids_of(self, side: int, block: slice) -> np.ndarray:
        lengths = self.lengths[block, side]
        ends = np.cumsum(lengths)
        return self.ids[np.arange(ends[-1]) + np.repeat(self.starts[block, side] - (ends - lengths), lengths)]

    def _numbered(self, side: int) -> np.ndarray:
        seen: dict[int, None] = {}
        for block in self.blocks:
            types, first = np.unique(self.ids_of(side, block), return_index=True)
            seen |= dict.fromkeys(types[np.argsort(first)].tolist())
        return np.fromiter(seen, np.int64, len(seen))


def _blocks(lengths: np.ndarray) -> list[slice]:
    """Pairs in a row with about POSITIONS pairs of positions, all of one batch. lengths: pairs x 2."""
    of_batch, of_positions = np.arange(len(lengths)) // BATCH, np.cumsum(lengths.prod(1)) // POSITIONS
    return [slice(*run) for run in runs(of_batch + of_positions)]  # neither ever falls


def _inverse(known: np.ndarray) -> np.ndarray:
    """Numbers by id."""
    numbers = np.zeros(int(known.max(initial=0)) + 1, np.int64)
    numbers[known] = np.arange(len(known))
    return numbers


def batches(text: Text) -> Iterator[list[slice]]:
    """The blocks of each batch."""
    of_batch = np.array([block.start // BATCH for block in text.blocks])
    for start, end in runs(of_batch):
        yield text.blocks[start:end]
