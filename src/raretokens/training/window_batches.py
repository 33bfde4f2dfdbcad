"""Pairs of a word and one near it: training steps of skip-gram (Mikolov et al., 2013; word2vec's public code)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import PAD, SPECIALS, Vocabulary
from raretokens.training.batches import Batch

POWER = 0.75  # of a word's count, when negatives are drawn


class WindowBatch(NamedTuple):
    """A training step: blocks of consecutive words."""

    centres: np.ndarray  # blocks x positions; PAD after the last word
    contexts: np.ndarray  # blocks x (positions + 2 windows); PAD beyond the ends of the step
    pairs: np.ndarray  # blocks x positions x (positions + 2 windows), bool
    negatives: np.ndarray  # blocks x words


def negative_distribution(vocabulary: Vocabulary) -> np.ndarray:
    """N: chance of a type to be drawn, its count to the power 3/4 over the sum of those; no special and no filler is drawn."""
    weight = _words_alone(vocabulary, vocabulary.counts**POWER)
    return weight / weight.sum()


def kept_share(vocabulary: Vocabulary, threshold: float) -> np.ndarray:
    """N: share of a type's occurrences that are kept, min(1, sqrt(t / f) + t / f) at relative frequency f (word2vec's code).

    No special is kept, so the windows of what is left reach across rare words and line ends.
    """
    frequency = _words_alone(vocabulary, vocabulary.counts)
    ratio = threshold * frequency.sum() / np.maximum(frequency, 1)
    return _words_alone(vocabulary, np.minimum(np.sqrt(ratio) + ratio, 1.0) if threshold else np.ones(len(vocabulary)))


def _words_alone(vocabulary: Vocabulary, values: np.ndarray) -> np.ndarray:
    values = np.array(values, dtype=np.float64)
    values[: len(SPECIALS)] = values[vocabulary.types :] = 0.0
    return values


class Windows:
    """The text in its own order, some tokens an update: of them frequent words are thinned out, each of the rest is paired with
    the words up to a distance drawn from 1 to `window`. Blocks of `block` words share `shared_negatives` negative samples.

    Words of different updates make no pairs. first: only so many tokens from the start of the text.
    """

    in_order = False

    def __init__(
        self,
        tokens: np.ndarray,
        vocabulary: Vocabulary,
        *,
        block: int,
        window: int,
        shared_negatives: int,
        subsample: float,
        tokens_per_step: int,
        seed: int = 0,
        first: int | None = None,
    ) -> None:
        self.tokens = tokens[:first]
        self.block, self.window, self.shared_negatives, self.seed = block, window, shared_negatives, seed
        self.tokens_per_step = tokens_per_step
        self.updates_per_epoch = len(self.tokens) // tokens_per_step
        self.kept = kept_share(vocabulary, subsample)
        self.chance = np.cumsum(negative_distribution(vocabulary))
        offset = np.arange(-window, block + window) - np.arange(block)[:, None]
        self.distance = np.where(offset == 0, window + 1, np.abs(offset))  # block x (block + 2 windows)
        self._latest: tuple[int, WindowBatch] | None = None

    def update(self, number: int) -> np.ndarray:
        """Its number: the rest is drawn from it."""
        return np.array([number])

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Occurrences of each type as the other word of a pair."""
        batch = self._batch(update)
        times = batch.pairs.sum(1)
        return np.bincount(batch.contexts.ravel(), times.ravel(), vocabulary).astype(np.int64)

    def targets(self, update: np.ndarray) -> int:
        """Pairs."""
        return max(int(self._batch(update).pairs.sum()), 1)

    @property
    def length(self) -> float:
        return float(self.block)

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        if processes > 1:
            raise UserError("skip-gram trains on one process: the gradients of its embedding matrices are sparse")
        return update

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """Micro-batches of at most that many words (at least one block)."""
        batch, step = self._batch(update), max(tokens // self.block, 1)
        others = np.concatenate((batch.contexts, batch.negatives), axis=1)
        for first in range(0, len(others), step):
            some = slice(first, first + step)
            inputs = torch.from_numpy(batch.centres[some]), torch.from_numpy(others[some])
            yield Batch(inputs, torch.from_numpy(batch.pairs[some]))

    def everything(self, tokens: int) -> Iterator[Batch]:
        """All updates of an epoch in order: for validation."""
        for number in range(self.updates_per_epoch):
            yield from self.cut(self.update(number), tokens)

    def _batch(self, update: np.ndarray) -> WindowBatch:
        number = int(update[0])
        if self._latest is None or self._latest[0] != number:
            self._latest = number, self._make(number)
        return self._latest[1]

    def _make(self, number: int) -> WindowBatch:
        random = np.random.default_rng((self.seed, number))
        start = number % self.updates_per_epoch * self.tokens_per_step
        words = np.asarray(self.tokens[start : start + self.tokens_per_step], dtype=np.int64)
        words = words[random.random(len(words)) < self.kept[words]]
        blocks = max(-(-len(words) // self.block), 1)
        padded = np.full(blocks * self.block + 2 * self.window, PAD)
        padded[self.window : self.window + len(words)] = words
        centres = padded[self.window : self.window + blocks * self.block].reshape(blocks, self.block)
        reaches = random.integers(1, self.window + 1, (blocks, self.block, 1))
        width = self.block + 2 * self.window
        contexts = np.lib.stride_tricks.sliding_window_view(padded, width)[:: self.block].copy()
        pairs = (self.distance <= reaches) & (contexts != PAD)[:, None] & (centres != PAD)[:, :, None]
        negatives = np.searchsorted(
            self.chance, random.random((blocks, self.shared_negatives)) * self.chance[-1], side="right"
        )
        return WindowBatch(centres.copy(), contexts, pairs, negatives)
