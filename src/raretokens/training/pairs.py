"""Sentence pairs in buckets of like length: updates of a translation model."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from raretokens.subword.streams import Bitext
from raretokens.subword.vocabulary import EOS, PAD
from raretokens.training.updates import Batch

BUCKETS = 8  # length buckets of an update of translation, as many as AGG's accumulated batches,
SMALLEST_BUCKET = 512  # unless they would hold fewer tokens than this: small buckets are mostly padding


class Pairs:
    """Translation: sentence pairs in buckets of like length; an update is some buckets, drawn anew each epoch.

    first: only the pairs that hold the first so many target tokens.
    """

    in_order = False

    def __init__(
        self, bitext: Bitext, longest: int, tokens_per_update: int = 0, seed: int = 0, first: int | None = None
    ) -> None:
        self.bitext, self.seed = bitext, seed
        self.size = bitext.lengths.max(1)  # of a pair: its longer side
        self.kept = np.flatnonzero(self.size <= longest)
        if first is not None:
            self.kept = self.kept[: max(int(np.searchsorted(bitext.lengths[self.kept, 1].cumsum(), first)), 1)]
        bucket = max(tokens_per_update // BUCKETS, SMALLEST_BUCKET, longest)
        self.buckets = self._fill(bucket)
        self.bucket_of = np.full(len(bitext), -1, dtype=np.int32)
        for number, pairs in enumerate(self.buckets):
            self.bucket_of[pairs] = number
        self.per_update = max(tokens_per_update // bucket, 1)
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
