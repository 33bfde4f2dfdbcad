"""Expectation-maximisation of fast_align in one direction, over the pairs of types that meet; the best link of every token.

Dyer, Chahuneau and Smith (2013): IBM model 2 with a diagonal in place of a table of positions, variational Bayes on the
translations. Sums are added in the order of the text and rounded where sil-thot rounds, so that the links are equal to
those of FastAlignModel in sil-thot 3.5.3 (one thread), to the last one.
"""

from collections.abc import Iterator

import numpy as np

from raretokens.alignment import bayes, c_library, diagonal, memory
from raretokens.alignment.cells import Cells
from raretokens.alignment.positions import Positions
from raretokens.alignment.progress import Progress
from raretokens.alignment.sizes import Sizes
from raretokens.alignment.text import Text, batches

SAME_AS = "3.5.3"  # the sil-thot whose links these equal, one by one, in the tests
ITERATIONS = 5  # fast_align's default
PASSES = 1 + ITERATIONS + 1  # over the text: who meets whom, iterations, best links
CELLS = 1 << 18  # at a time


class Direction:
    """source, target: 0 or 1, the side of the text. Of the source types, 0 is NULL, the others are moved by one.

    table: p(t | s) of each cell, float64, 1 before the first iteration.
    """

    def __init__(self, text: Text, source: int, progress: Progress) -> None:
        self.text, self.source, self.target, self.progress = text, source, 1 - source, progress
        self.sizes = Sizes(text.lengths[:, self.target], text.lengths[:, self.source])
        types = len(text.known[source]) + 1, len(text.known[self.target])
        memory.check(memory.PLACE * types[0] * types[1], f"the pairs of {types[0]:,} and {types[1]:,} types")
        positions = self._positions(text.blocks, "pairs of types")
        self.cells = Cells(*types, (part.place(types[1]) for part in positions))
        memory.check(
            memory.CELL * len(self.cells), f"{len(self.cells):,} pairs of types in {len(text):,} sentence pairs"
        )
        self.tension, self.table = diagonal.START, np.ones(len(self.cells))

    def _positions(self, blocks: list[slice], doing: str) -> Iterator[Positions]:
        for block in blocks:
            positions = Positions(self.text.side(self.source, block), self.text.side(self.target, block))
            yield positions
            self.progress.step(len(positions), f"direction {self.source + 1} of 2, {doing}")

    def train(self) -> None:
        counts = np.zeros(len(self.cells))
        for iteration in range(1, ITERATIONS + 1):
            h = self._expect(counts, f"iteration {iteration} of {ITERATIONS}")
            if iteration > 1:
                self.tension = diagonal.tuned(self.sizes, self.tension, h / self.sizes.tokens)
            self._maximise(counts)

    def _expect(self, counts: np.ndarray, doing: str) -> float:
        """Add the expected links of each cell to `counts`; gives the sum of h over the expected links."""
        normalisers, total = diagonal.normalisers(self.sizes, self.tension), 0.0
        for blocks in batches(self.text):
            part = 0.0
            for positions in self._positions(blocks, doing):
                cell, share = self._joint(positions, normalisers)
                share /= positions.spread(np.bincount(positions.row, share))
                np.add.at(counts, cell, share)
                share *= positions.h(back=1)  # fast_align tunes with j from 0 what it uses with j from 1
                share[positions.starts] = 0.0
                part = diagonal.in_turn(share, part)
            total += part
        return total

    def _joint(self, positions: Positions, normalisers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cell of each pair of positions, and p(target piece, source position)."""
        first = self.sizes.at(positions.target.lengths, positions.source.lengths)
        joint = c_library.exp(positions.h() * self.tension)
        joint /= positions.spread(normalisers[positions.by_row(first) + positions.j - 1])
        joint[positions.starts] = diagonal.P0
        cell = self.cells.rank(positions.place(self.cells.shape[1]))
        return cell, self.table.take(cell) * joint

    def _maximise(self, counts: np.ndarray) -> None:
        """The table from expected links, which are set back to zero."""
        for first, last in self.cells.rows(CELLS):
            part = slice(self.cells.starts[first], self.cells.starts[last])
            self.table[part] = bayes.probabilities(counts[part], np.diff(self.cells.starts[first : last + 1]))
            counts[part] = 0.0

    def best(self) -> np.ndarray:
        """uint16 for each target token of the text: its source position from 1, 0 for none; of equals the first."""
        normalisers = diagonal.normalisers(self.sizes, self.tension)
        found, done = np.zeros(self.sizes.tokens, np.uint16), 0
        for positions in self._positions(self.text.blocks, "links"):
            _, joint = self._joint(positions, normalisers)
            highest = np.flatnonzero(joint == positions.spread(np.maximum.reduceat(joint, positions.starts)))
            first = highest[np.unique(positions.row[highest], return_index=True)[1]]
            found[done : done + len(first)] = first - positions.starts
            done += len(first)
        return found
