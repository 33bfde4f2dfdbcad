"""Batches of a token stream for language models: shuffled blocks, or parallel columns for recurrent models.

A stream for recurrent models is split into as many columns of equal length as a step has sequences. A step reads the next
positions of each column, so that states carry over from step to step. The number of positions is random (Merity et al., 2018,
section 5). Lengths are sampled once and permuted each epoch, so that all epochs have the same number of steps.
"""

from collections.abc import Iterator

import numpy as np
import torch

from raretokens.vocabulary import EOS
from reproduction.training.batches import Batch, Shuffled, StepData


class Blocks(Shuffled):
    """Blocks of equal length of a token stream for language modelling, reshuffled each epoch; line ends do not matter.

    first: keep only the first `first` tokens of the stream.
    """

    def __init__(self, tokens: np.ndarray, block: int, tokens_per_step: int = 0, seed: int = 0, first: int | None = None) -> None:
        self.tokens, self.block = tokens[:first], block
        super().__init__(len(self.tokens) // block, block, tokens_per_step, seed)

    def step(self, number: int) -> np.ndarray:
        """Return the start positions of the blocks of step `number` (from 0)."""
        return super().step(number) * self.block

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        targets = np.concatenate([self.tokens[start : start + self.block] for start in indices])
        return np.bincount(targets, minlength=vocabulary)

    def targets(self, indices: np.ndarray) -> int:
        return len(indices) * self.block

    @property
    def length(self) -> float:
        return float(self.block)

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        step = max(tokens // self.block, 1)
        for first in range(0, len(indices), step):
            yield self._batch(indices[first : first + step], self.block)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield the whole stream in order, with a shorter last block."""
        whole = len(self.tokens) // self.block * self.block
        yield from self.cut(np.arange(0, whole, self.block), tokens)
        if whole < len(self.tokens):
            yield self._batch(np.array([whole]), len(self.tokens) - whole)

    def _batch(self, starts: np.ndarray, length: int) -> Batch:
        # The input at a position is the previous token. The input at the first position of the text is </s>.
        rows = [self.tokens[max(start - 1, 0) : start + length].astype(np.int64) for start in starts]
        rows = [np.concatenate(([EOS], row)) if start == 0 else row for start, row in zip(starts, rows, strict=True)]
        stacked = torch.from_numpy(np.stack(rows))
        return Batch((stacked[:, :-1],), stacked[:, 1:])


SHORT, DEVIATION, LEAST = 0.05, 5.0, 5  # share of half-length steps; standard deviation and minimum (positions)


class Columns(StepData):
    """Parallel columns of a token stream for recurrent language models.

    columns: number of columns; block: mean length of a step in positions, or the fixed length if `seed` is None. The last tokens
    that do not fill one position of all columns are dropped. A process always reads the same columns. first: keep only the first
    `first` tokens, but at least one position.
    """

    in_order = True

    def __init__(self, tokens: np.ndarray, block: int, columns: int, seed: int | None = None, first: int | None = None) -> None:
        self.tokens = tokens if first is None else tokens[: max(first, columns)]
        self.block, self.columns, self.seed = block, columns, seed
        self.rows = len(self.tokens) // columns  # positions of a column
        self.lengths = self._fixed() if seed is None else self._drawn(np.random.default_rng(seed))
        self.steps_per_epoch = len(self.lengths)

    def _fixed(self) -> np.ndarray:
        whole, rest = divmod(self.rows, self.block)
        return np.array([self.block] * whole + [rest] * (rest > 0), dtype=np.int64)

    def _drawn(self, random: np.random.Generator) -> np.ndarray:
        lengths: list[int] = []
        left = self.rows
        while left:
            mean = self.block / 2 if random.random() < SHORT else self.block
            length = max(int(random.normal(mean, DEVIATION)), LEAST)
            lengths.append(left if left - length < LEAST else length)
            left -= lengths[-1]
        return np.array(lengths, dtype=np.int64)

    def step(self, number: int) -> np.ndarray:
        """Return step `number` (from 0) as columns x 3: index of the column, first position in it, number of positions."""
        epoch, position = divmod(number, self.steps_per_epoch)
        lengths = self.lengths
        if self.seed is not None:
            lengths = np.random.default_rng((self.seed, epoch)).permutation(lengths)
        start, length = lengths[:position].sum(), lengths[position]
        return np.array([(column, start, length) for column in range(self.columns)], dtype=np.int64)

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        return np.bincount(np.concatenate([self._segment(*row) for row in indices]), minlength=vocabulary)

    def targets(self, indices: np.ndarray) -> int:
        return int(indices[:, 2].sum())

    @property
    def length(self) -> float:
        return float(self.lengths.mean())

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        step = max(tokens // int(indices[0, 2]), 1)
        yield from (self._batch(indices[first : first + step]) for first in range(0, len(indices), step))

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all columns from their start, in order."""
        lengths = self._fixed()
        for position, length in enumerate(lengths):
            start = lengths[:position].sum()
            rows = [(column, start, length) for column in range(self.columns)]
            yield from self.cut(np.array(rows, dtype=np.int64), tokens)

    def _segment(self, column: int, start: int, length: int) -> np.ndarray:
        begin = column * self.rows + start
        return self.tokens[begin : begin + length].astype(np.int64)

    def _batch(self, indices: np.ndarray) -> Batch:
        """Return a batch whose inputs are ids and column indices; index c is encoded as -1 - c at the start of a column."""
        targets = np.stack([self._segment(*row) for row in indices])
        # The input at a position is the previous token. The input at the first position of the text is </s>.
        firsts = [column * self.rows + start for column, start, _ in indices]
        before = np.array([[self.tokens[first - 1] if first else EOS] for first in firsts], dtype=np.int64)
        inputs = np.concatenate((before, targets[:, :-1]), axis=1)
        columns = np.where(indices[:, 1] == 0, -1 - indices[:, 0], indices[:, 0])
        return Batch((torch.from_numpy(inputs), torch.from_numpy(columns)), torch.from_numpy(targets))


def columns_of(tokens_per_step: int, block: int) -> int:
    """Return the number of columns that a step of `tokens_per_step` tokens reads."""
    return max(tokens_per_step // block, 1)
