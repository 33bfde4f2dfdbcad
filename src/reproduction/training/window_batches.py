"""Batches of skip-gram: pairs of a word and a nearby context word (Mikolov et al., 2013; word2vec's public code)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from raretokens.vocabulary import PAD, SPECIALS, Vocabulary
from reproduction.training.batches import Batch, StepData

POWER = 0.75  # exponent of word counts in the distribution of negative samples


class WindowBatch(NamedTuple):
    """Data of a training step: blocks of consecutive words."""

    centres: np.ndarray  # blocks x positions; PAD after the last word
    contexts: np.ndarray  # blocks x (positions + 2 windows); PAD beyond the ends of the step
    pairs: np.ndarray  # blocks x positions x (positions + 2 windows), bool: whether centre and context are a pair
    negatives: np.ndarray  # blocks x shared_negatives


def negative_distribution(vocabulary: Vocabulary) -> np.ndarray:
    """Return the distribution of negative samples (N): counts to the power 3/4, normalised; special tokens and fillers have 0."""
    weight = _words_alone(vocabulary, vocabulary.counts**POWER)
    return weight / weight.sum()


def kept_share(vocabulary: Vocabulary, threshold: float) -> np.ndarray:
    """Return the share of each type's occurrences that subsampling keeps (N): min(1, sqrt(t / f) + t / f), as in word2vec.

    t is the threshold (0: keep all) and f the relative frequency. Special tokens are dropped, so windows reach across rare words
    and line ends.
    """
    frequency = _words_alone(vocabulary, vocabulary.counts)
    ratio = threshold * frequency.sum() / np.maximum(frequency, 1)
    return _words_alone(vocabulary, np.minimum(np.sqrt(ratio) + ratio, 1.0) if threshold else np.ones(len(vocabulary)))


def _words_alone(vocabulary: Vocabulary, values: np.ndarray) -> np.ndarray:
    values = np.array(values, dtype=np.float64)
    values[: len(SPECIALS)] = values[vocabulary.types :] = 0.0
    return values


class Windows(StepData):
    """Skip-gram pairs of the text in its original order, tokens_per_step tokens per step.

    Frequent words are subsampled. Each remaining word is paired with all words up to a random distance of 1 to `window`. Blocks
    of `block` words share `shared_negatives` negative samples. Words of different steps form no pairs.

    first: keep only the first `first` tokens of the text.
    """

    alone = "the gradients of skip-gram's embedding matrices are sparse"

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
        self.steps_per_epoch = len(self.tokens) // tokens_per_step
        self.kept = kept_share(vocabulary, subsample)
        self.chance = np.cumsum(negative_distribution(vocabulary))
        offset = np.arange(-window, block + window) - np.arange(block)[:, None]
        self.distance = np.where(offset == 0, window + 1, np.abs(offset))  # block x (block + 2 windows)
        self._latest: tuple[int, WindowBatch] | None = None

    def step(self, number: int) -> np.ndarray:
        """Return the number of the step, from which `_make` generates all data of the step."""
        return np.array([number])

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count each type among the context words of all pairs of a step."""
        batch = self._batch(indices)
        times = batch.pairs.sum(1)
        return np.bincount(batch.contexts.ravel(), times.ravel(), vocabulary).astype(np.int64)

    def targets(self, indices: np.ndarray) -> int:
        """Return the number of pairs of a step, at least 1."""
        return max(int(self._batch(indices).pairs.sum()), 1)

    @property
    def length(self) -> float:
        return float(self.block)

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        batch, step = self._batch(indices), max(tokens // self.block, 1)
        others = np.concatenate((batch.contexts, batch.negatives), axis=1)
        for first in range(0, len(others), step):
            some = slice(first, first + step)
            inputs = torch.from_numpy(batch.centres[some]), torch.from_numpy(others[some])
            yield Batch(inputs, torch.from_numpy(batch.pairs[some]))

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all steps of an epoch in order."""
        for number in range(self.steps_per_epoch):
            yield from self.cut(self.step(number), tokens)

    def _batch(self, indices: np.ndarray) -> WindowBatch:
        number = int(indices[0])
        if self._latest is None or self._latest[0] != number:
            self._latest = number, self._make(number)
        return self._latest[1]

    def _make(self, number: int) -> WindowBatch:
        random = np.random.default_rng((self.seed, number))
        start = number % self.steps_per_epoch * self.tokens_per_step
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
        negatives = np.searchsorted(self.chance, random.random((blocks, self.shared_negatives)) * self.chance[-1], side="right")
        return WindowBatch(centres.copy(), contexts, pairs, negatives)
