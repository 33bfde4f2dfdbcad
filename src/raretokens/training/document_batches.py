"""Sentence pairs in buckets of like length: updates of a translation model.

Documents with a class each: updates of a classifier.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from raretokens.errors import UserError
from raretokens.tokenization.token_files import Bitext
from raretokens.tokenization.vocabulary import EOS, PAD
from raretokens.training.batches import Batch

BUCKETS = 8  # length buckets of an update of translation, as many as AGG's accumulated batches,
SMALLEST_BUCKET = 512  # unless they would hold fewer tokens than this: small buckets are mostly padding


class Pairs:
    """Translation: sentence pairs in buckets of like length; an update is some buckets, drawn anew each epoch.

    first: only the pairs that hold the first so many target tokens.
    """

    in_order = False

    def __init__(
        self, bitext: Bitext, longest: int, tokens_per_step: int = 0, seed: int = 0, first: int | None = None
    ) -> None:
        self.bitext, self.seed = bitext, seed
        self.size = bitext.lengths.max(1)  # of a pair: its longer side
        self.kept = np.flatnonzero(self.size <= longest)
        if first is not None:
            self.kept = self.kept[: max(int(np.searchsorted(bitext.lengths[self.kept, 1].cumsum(), first)), 1)]
        bucket = max(tokens_per_step // BUCKETS, SMALLEST_BUCKET, longest)
        self.buckets = self._fill(bucket)
        self.bucket_of = np.full(len(bitext), -1, dtype=np.int32)
        for number, pairs in enumerate(self.buckets):
            self.bucket_of[pairs] = number
        self.per_update = max(tokens_per_step // bucket, 1)
        self.updates_per_epoch = len(self.buckets) // self.per_update

    def _fill(self, tokens: int) -> list[np.ndarray]:
        """Pairs sorted by length (ties in random order), cut where a padded bucket would exceed that many tokens."""
        shuffled = np.random.default_rng(self.seed).permutation(self.kept)
        source, target = self.bitext.lengths[shuffled].T
        return list(packed(shuffled[np.lexsort((source, target))], self.size, tokens))

    def update(self, number: int) -> np.ndarray:
        """Indices of the pairs of update `number` (from 0)."""
        epoch, place = divmod(number, self.updates_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.buckets))
        chosen = order[place * self.per_update : (place + 1) * self.per_update]
        return np.concatenate([self.buckets[bucket] for bucket in chosen])

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Occurrences of each type among the targets of an update."""
        return np.bincount(np.concatenate([self.bitext.pair(i)[1] for i in update]), minlength=vocabulary)

    def targets(self, update: np.ndarray) -> int:
        return int(self.bitext.lengths[update, 1].sum())

    @property
    def length(self) -> float:
        """Mean positions of a side of a pair."""
        return float(self.bitext.lengths[self.kept].mean())

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """What a process trains of an update: whole buckets, or a part of one where there are more processes than buckets."""
        buckets = self._apart(update)
        if processes <= len(buckets):
            return np.concatenate(buckets[rank::processes])
        bucket = rank % len(buckets)
        return buckets[bucket][rank // len(buckets) :: len(range(bucket, processes, len(buckets)))]

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """Micro-batches of at most that many padded tokens (at least one pair), each from one bucket: so padding is rare."""
        for bucket in self._apart(update):
            yield from self._batches(bucket, tokens)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """All pairs, short ones first: for validation."""
        yield from self._batches(self.kept, tokens)

    def _apart(self, update: np.ndarray) -> list[np.ndarray]:
        """The buckets of an update, or of a part of it."""
        return np.split(update, np.flatnonzero(np.diff(self.bucket_of[update])) + 1)

    def _batches(self, pairs: np.ndarray, tokens: int) -> Iterator[Batch]:
        by_length = pairs[np.argsort(self.size[pairs], kind="stable")]
        yield from map(self._batch, packed(by_length, self.size, tokens))

    def _batch(self, pairs: np.ndarray) -> Batch:
        sources, targets = zip(*map(self.bitext.pair, pairs), strict=True)
        shifted = [np.concatenate(([EOS], target[:-1])) for target in targets]
        return Batch((padded(sources), padded(shifted)), padded(targets))


def packed(pairs: np.ndarray, size: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Cut a list sorted by length so that (pairs in a part) x (longest of it) stays within tokens."""
    first = longest = 0
    for place, pair in enumerate(pairs):
        longest = max(longest, size[pair])
        if place > first and longest * (place - first + 1) > tokens:
            yield pairs[first:place]
            first, longest = place, size[pair]
    if first < len(pairs):
        yield pairs[first:]


def padded(rows: tuple[np.ndarray, ...] | list[np.ndarray]) -> Tensor:
    out = torch.full((len(rows), max(map(len, rows))), PAD)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = torch.from_numpy(ids)
    return out


class Documents:
    """Documents of a token stream, which `</s>` ends, in a new order each epoch; each is cut after its first `block` ids.

    labels: number of the class of each. An update is tokens_per_step // block documents, and one batch: batch normalisation
    sees all of it, so it is never split, whatever a micro-batch holds. first: only documents within so many tokens.
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
        self.per_update = max(tokens_per_step // block, 1)
        self.updates_per_epoch = kept // self.per_update

    def update(self, number: int) -> np.ndarray:
        """Documents of update `number` (from 0)."""
        epoch, place = divmod(number, self.updates_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.labels))
        return order[place * self.per_update : (place + 1) * self.per_update]

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Occurrences of each type in the documents of an update."""
        ids = np.concatenate([self._ids(document) for document in update])
        return np.bincount(ids, minlength=vocabulary)

    def targets(self, update: np.ndarray) -> int:
        return len(update)

    @property
    def length(self) -> float:
        """Mean positions of a document."""
        return float(self.size.mean())

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        if processes > 1:
            raise UserError(f"batch normalisation sees whole updates: train on one process, not on {processes}")
        return update

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """The whole update."""
        yield self._batch(update)

    def everything(self, tokens: int) -> Iterator[Batch]:
        """All documents, short ones first, in batches of at most so many padded tokens (at least one document)."""
        for documents in packed(self.by_length, self.size, tokens):
            yield self._batch(documents)

    @property
    def by_length(self) -> np.ndarray:
        """The documents in the order of `everything`."""
        return np.argsort(self.size, kind="stable")

    def _ids(self, document: int) -> np.ndarray:
        start = self.starts[document]
        return self.tokens[start : start + self.size[document]].astype(np.int64)

    def _batch(self, documents: np.ndarray) -> Batch:
        """Targets are numbers of classes."""
        labels = torch.from_numpy(self.labels[documents].astype(np.int64))
        return Batch((padded([self._ids(document) for document in documents]),), labels[:, None])
