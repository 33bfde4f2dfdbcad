"""Batches of sentence pairs for translation, in buckets of similar length, and of documents for classifiers."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from raretokens.errors import UserError
from raretokens.tokenization.token_files import Bitext
from raretokens.tokenization.vocabulary import EOS, PAD
from raretokens.training.batches import Batch

BUCKETS = 8  # length buckets of a translation step, as many as the batches that AGG accumulates
SMALLEST_BUCKET = 512  # least tokens of a bucket, because small buckets are mostly padding


class Pairs:
    """Sentence pairs of translation in buckets of similar length. A step consists of random buckets, reshuffled each epoch.

    longest: most tokens of either side; first: keep only the pairs that contain the first `first` target tokens.
    """

    in_order = False

    def __init__(
        self, bitext: Bitext, longest: int, tokens_per_step: int = 0, seed: int = 0, first: int | None = None
    ) -> None:
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
        self.per_step = max(tokens_per_step // self.bucket, 1)
        self.steps_per_epoch = len(self.buckets) // self.per_step

    def _fill(self, tokens: int) -> list[np.ndarray]:
        """Return buckets of at most `tokens` padded tokens, from pairs sorted by length with ties in random order."""
        shuffled = np.random.default_rng(self.seed).permutation(self.kept)
        source, target = self.bitext.lengths[shuffled].T
        return list(packed(shuffled[np.lexsort((source, target))], self.size, tokens))

    def step(self, number: int) -> np.ndarray:
        """Return the indices of the pairs of step `number` (from 0)."""
        epoch, position = divmod(number, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.buckets))
        chosen = order[position * self.per_step : (position + 1) * self.per_step]
        return np.concatenate([self.buckets[bucket] for bucket in chosen])

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count each type among the targets of a step."""
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
        """Yield micro-batches of at most `tokens` padded tokens (at least one pair).

        Each is from one bucket, to limit padding. Where buckets have fewer than `least` tokens, micro-batches span buckets that
        are neighbours in length, and have at most `least` tokens.
        """
        is_spanning = self.bucket < least
        for pairs in [indices] if is_spanning else self._apart(indices):
            yield from self._batches(pairs, min(tokens, least) if is_spanning else tokens)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all pairs, short pairs first, for validation."""
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


class Documents:
    """Documents of a token stream, each ended by `</s>` and truncated to `block` ids, reshuffled each epoch.

    A step consists of tokens_per_step // block documents in one batch. The batch is never split into micro-batches, because batch
    normalisation needs all of it.

    labels: class of each document; first: keep only documents within the first `first` tokens.
    """

    in_order = False

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
        kept = len(ends) if first is None else int(np.searchsorted(ends, first, side="right"))
        self.tokens, self.labels, self.seed = tokens, labels[:kept], seed
        self.starts = np.concatenate(([0], ends[:-1]))[:kept]
        self.size = np.minimum(ends[:kept] - self.starts, block)
        self.per_step = max(tokens_per_step // block, 1)
        self.steps_per_epoch = kept // self.per_step

    def step(self, number: int) -> np.ndarray:
        """Return the indices of the documents of step `number` (from 0)."""
        epoch, position = divmod(number, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.labels))
        return order[position * self.per_step : (position + 1) * self.per_step]

    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count each type in the documents of a step."""
        ids = np.concatenate([self._ids(document) for document in indices])
        return np.bincount(ids, minlength=vocabulary)

    def targets(self, indices: np.ndarray) -> int:
        return len(indices)

    @property
    def length(self) -> float:
        """Mean number of tokens of a document after truncation."""
        return float(self.size.mean())

    def share(self, indices: np.ndarray, rank: int, processes: int) -> np.ndarray:
        if processes > 1:
            raise UserError(f"batch normalisation sees whole steps: train on one process, not on {processes}")
        return indices

    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        """Yield the whole step as one batch."""
        yield self._batch(indices)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield all documents, short ones first, in batches of at most `tokens` padded tokens (at least one document)."""
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
