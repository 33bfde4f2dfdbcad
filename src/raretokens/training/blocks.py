"""A token stream in blocks of equal length: updates of a language model."""

from collections.abc import Iterator

import numpy as np
import torch

from raretokens.subword.vocabulary import EOS
from raretokens.training.updates import Batch


class Blocks:
    """Language modelling: the token stream in blocks of equal length, without regard to lines, in a new order each epoch.

    first: only so many tokens from the start of the stream.
    """

    in_order = False

    def __init__(
        self, tokens: np.ndarray, block: int, tokens_per_update: int = 0, seed: int = 0, first: int | None = None
    ) -> None:
        self.tokens, self.block, self.seed = tokens[:first], block, seed
        self.per_update = max(tokens_per_update // block, 1)
        self.updates_per_epoch = len(tokens) // block // self.per_update

    def update(self, number: int) -> np.ndarray:
        """Start positions of the blocks of update `number` (from 0)."""
        epoch, place = divmod(number, self.updates_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.tokens) // self.block)
        return order[place * self.per_update : (place + 1) * self.per_update] * self.block

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Occurrences of each type among the targets of an update."""
        targets = np.concatenate([self.tokens[start : start + self.block] for start in update])
        return np.bincount(targets, minlength=vocabulary)

    def targets(self, update: np.ndarray) -> int:
        return len(update) * self.block

    @property
    def length(self) -> float:
        """Positions of a sequence."""
        return float(self.block)

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """What a process trains of an update."""
        return update[rank::processes]

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """Micro-batches of at most that many tokens (at least one block)."""
        step = max(tokens // self.block, 1)
        for first in range(0, len(update), step):
            yield self._batch(update[first : first + step], self.block)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """The whole stream in order, the last block shorter: for validation."""
        whole = len(self.tokens) // self.block * self.block
        yield from self.cut(np.arange(0, whole, self.block), tokens)
        if whole < len(self.tokens):
            yield self._batch(np.array([whole]), len(self.tokens) - whole)

    def _batch(self, starts: np.ndarray, length: int) -> Batch:
        # The input at a position is the token before it; before the first token of the text stands </s>.
        rows = [self.tokens[max(start - 1, 0) : start + length].astype(np.int64) for start in starts]
        rows = [np.concatenate(([EOS], row)) if start == 0 else row for start, row in zip(starts, rows, strict=True)]
        stacked = torch.from_numpy(np.stack(rows))
        return Batch((stacked[:, :-1],), stacked[:, 1:])
