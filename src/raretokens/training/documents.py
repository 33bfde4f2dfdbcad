"""Documents with a class each: updates of a classifier."""

from collections.abc import Iterator

import numpy as np
import torch

from raretokens.errors import UserError
from raretokens.subword.vocabulary import EOS
from raretokens.training.pairs import packed, padded
from raretokens.training.updates import Batch


class Documents:
    """Documents of a token stream, which `</s>` ends, in a new order each epoch; each is cut after its first `block` ids.

    labels: number of the class of each. An update is tokens_per_update // block documents, and one batch: batch normalisation
    sees all of it, so it is never split, whatever a micro-batch holds. first: only documents within so many tokens.
    """

    in_order = False

    def __init__(
        self,
        tokens: np.ndarray,
        labels: np.ndarray,
        block: int,
        tokens_per_update: int = 0,
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
        self.per_update = max(tokens_per_update // block, 1)
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
