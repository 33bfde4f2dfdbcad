"""Batches of separate examples: sentence pairs in buckets of similar length, documents, and images."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from raretokens.vocabulary import EOS, PAD
from reproduction.corpora.tokenization.token_files import Bitext
from reproduction.training.batches import Batch, Shuffled

BUCKETS = 8  # length buckets of a translation step, as many as the batches that AGG accumulates
SMALLEST_BUCKET = 512  # least tokens of a bucket, because small buckets are mostly padding


class Pairs(Shuffled):
    """Sentence pairs of translation in buckets of similar length. A step consists of random buckets, reshuffled each epoch.

    longest: most tokens of either side; first: keep only pairs that end before target token `first`, but at least one.
    """

    def __init__(self, bitext: Bitext, longest: int, tokens_per_step: int = 0, seed: int = 0, first: int | None = None) -> None:
        self.bitext, self.seed = bitext, seed
        self.size = bitext.lengths.max(1)  # tokens of each pair's longer side
        self.kept = np.flatnonzero(self.size <= longest)
        if first is not None:
            self.kept = self.kept[: max(int(np.searchsorted(bitext.lengths[self.kept, 1].cumsum(), first)), 1)]
        self.bucket = bucket_tokens(tokens_per_step, longest)
        self.buckets = self._fill(self.bucket)
        self.bucket_of = np.full(len(bitext), -1, dtype=np.int32)
        for number, pairs in enumerate(self.buckets):
            self.bucket_of[pairs] = number
        super().__init__(len(self.buckets), self.bucket, tokens_per_step, seed)

    def _fill(self, tokens: int) -> list[np.ndarray]:
        """Return buckets of at most `tokens` padded tokens, from pairs sorted by length with ties in random order."""
        shuffled = np.random.default_rng(self.seed).permutation(self.kept)
        source, target = self.bitext.lengths[shuffled].T
        return list(packed(shuffled[np.lexsort((source, target))], self.size, tokens))

    def step(self, number: int) -> np.ndarray:
        """Return the indices of the pairs of step `number` (from 0)."""
        chosen = super().step(number)
        return np.concatenate([self.buckets[bucket] for bucket in chosen])

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        return np.bincount(np.concatenate([self.bitext.pair(i)[1] for i in indices]), minlength=vocabulary)

    def targets(self, indices: np.ndarray) -> int:
        return int(self.bitext.lengths[indices, 1].sum())

    @property
    def length(self) -> float:
        """Mean number of tokens of one side of a pair."""
        return float(self.bitext.lengths[self.kept].mean())

    def share(self, indices: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """Return a process's part of a step: whole buckets, or part of a bucket if there are more processes than buckets."""
        buckets = self._apart(indices)
        if processes <= len(buckets):
            return np.concatenate(buckets[rank::processes])
        bucket = rank % len(buckets)
        return buckets[bucket][rank // len(buckets) :: len(range(bucket, processes, len(buckets)))]

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        """Yield micro-batches of one bucket each, to limit padding.

        Where buckets have fewer than `least` tokens, micro-batches span buckets that
        are neighbours in length, and have at most `least` tokens.
        """
        is_spanning = self.bucket < least
        for pairs in [indices] if is_spanning else self._apart(indices):
            yield from self._batches(pairs, min(tokens, least) if is_spanning else tokens)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all pairs, short pairs first."""
        yield from self._batches(self.kept, tokens)

    def _apart(self, indices: np.ndarray) -> list[np.ndarray]:
        """Split a step, or part of a step, into its buckets."""
        return np.split(indices, np.flatnonzero(np.diff(self.bucket_of[indices])) + 1)

    def _batches(self, pairs: np.ndarray, tokens: int) -> Iterator[Batch]:
        by_length = pairs[np.argsort(self.size[pairs], kind="stable")]
        yield from map(self._batch, packed(by_length, self.size, tokens))

    def _batch(self, pairs: np.ndarray) -> Batch:
        sources, targets = zip(*map(self.bitext.pair, pairs), strict=True)
        shifted = [np.concatenate(([EOS], target[:-1])) for target in targets]
        return Batch((padded(sources), padded(shifted)), padded(targets))


def bucket_tokens(tokens_per_step: int, longest: int) -> int:
    """Return the most padded tokens of a bucket."""
    return max(tokens_per_step // BUCKETS, SMALLEST_BUCKET, longest)


def packed(pairs: np.ndarray, size: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yield parts of a list sorted by length such that (items of a part) x (longest item) is at most `tokens`."""
    first = longest = 0
    for position, pair in enumerate(pairs):
        longest = max(longest, size[pair])
        if position > first and longest * (position - first + 1) > tokens:
            yield pairs[first:position]
            first, longest = position, size[pair]
    if first < len(pairs):
        yield pairs[first:]


def padded(rows: tuple[np.ndarray, ...] | list[np.ndarray]) -> Tensor:
    out = torch.full((len(rows), max(map(len, rows))), PAD)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = torch.from_numpy(ids)
    return out


class Documents(Shuffled):
    """Documents of a token stream, each ended by `</s>` and truncated to `block` ids, reshuffled each epoch.

    A step consists of tokens_per_step // block documents in one batch. The batch is never split into micro-batches, because batch
    normalisation needs all of it.

    labels: class of each document; first: keep only documents within the first `first` tokens, but at least one.
    """

    alone = "batch normalisation sees whole steps"

    def __init__(
        self,
        tokens: np.ndarray,
        labels: np.ndarray,
        block: int,
        tokens_per_step: int = 0,
        seed: int = 0,
        first: int | None = None,
    ) -> None:
        ends = np.flatnonzero(tokens == EOS) + 1
        if len(ends) != len(labels):
            raise ValueError(f"{len(ends)} documents and {len(labels)} labels; encode the text again")
        kept = len(ends) if first is None else max(int(np.searchsorted(ends, first, side="right")), 1)
        self.tokens, self.labels = tokens, labels[:kept]
        self.starts = np.concatenate(([0], ends[:-1]))[:kept]
        self.size = np.minimum(ends[:kept] - self.starts, block)
        super().__init__(kept, block, tokens_per_step, seed)

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count each type in the documents of a step."""
        ids = np.concatenate([self._ids(document) for document in indices])
        return np.bincount(ids, minlength=vocabulary)

    @property
    def length(self) -> float:
        """Mean number of tokens of a document after truncation."""
        return float(self.size.mean())

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        """Yield the whole step as one batch."""
        yield self._batch(indices)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all documents, short ones first."""
        for documents in packed(self.by_length, self.size, tokens):
            yield self._batch(documents)

    @property
    def by_length(self) -> np.ndarray:
        """Indices of the documents in the order of `everything`."""
        return np.argsort(self.size, kind="stable")

    def _ids(self, document: int) -> np.ndarray:
        start = self.starts[document]
        return self.tokens[start : start + self.size[document]].astype(np.int64)

    def _batch(self, documents: np.ndarray) -> Batch:
        """Return a batch whose targets are class indices."""
        labels = torch.from_numpy(self.labels[documents].astype(np.int64))
        return Batch((padded([self._ids(document) for document in documents]),), labels[:, None])


class Images(Shuffled):
    """Images, reshuffled each epoch; tokens are pixels, and targets are the ids of classes.

    pixels: images x pixels; classes: class id of each image; first: keep only images within the first `first` pixels, but
    at least one.
    """

    def __init__(
        self, pixels: np.ndarray, classes: np.ndarray, tokens_per_step: int = 0, seed: int = 0, first: int | None = None
    ) -> None:
        each = pixels.shape[1]
        kept = len(pixels) if first is None else max(first // each, 1)
        self.pixels, self.classes = pixels[:kept], classes[:kept]
        super().__init__(len(self.classes), each, tokens_per_step, seed)

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count the images of a step by class."""
        return np.bincount(self.classes[indices], minlength=vocabulary)

    @property
    def length(self) -> float:
        """Number of pixels of an image."""
        return float(self.pixels.shape[1])

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        step = max(tokens // self.pixels.shape[1], 1)
        for first in range(0, len(indices), step):
            chosen = indices[first : first + step]
            targets = torch.from_numpy(self.classes[chosen].astype(np.int64))
            yield Batch((torch.from_numpy(self.pixels[chosen]),), targets[:, None])

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all images in order."""
        yield from self.cut(np.arange(len(self.classes)), tokens)
