"""Which sequences make up which update.

An update is a pure function of (data, seed, update number): a resumed run, another micro-batch size or more processes see
the same sequences. Micro-batches only cut an update into pieces.

Updates made ready for the device: by torch's own loader, in processes of their own and in pinned memory on a GPU.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import PAD


class Batch(NamedTuple):
    inputs: tuple[Tensor, ...]  # arguments of the model, each sequences x positions
    targets: Tensor  # sequences x positions; PAD where there is none

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            tuple(tensor.to(device, non_blocking=True) for tensor in self.inputs),
            self.targets.to(device, non_blocking=True),
        )


class Updates(Protocol):
    """How a text is cut into updates."""

    updates_per_epoch: int
    in_order: bool  # a batch of everything() needs what a model carries from the one before it

    @property
    def length(self) -> float:
        """Mean positions of a sequence."""

    def update(self, number: int) -> np.ndarray:
        """What update `number` (from 0) consists of, in numbers that mean something to this object alone."""

    def counts(self, update: np.ndarray, vocabulary: int) -> np.ndarray:
        """Occurrences of each type among the targets of an update (N, int64)."""

    def targets(self, update: np.ndarray) -> int:
        """What the update's loss is the mean over: of all micro-batches and processes together."""

    def share(self, update: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """What a process trains of an update."""

    def cut(self, update: np.ndarray, tokens: int) -> Iterator[Batch]:
        """Micro-batches of at most that many tokens."""

    def everything(self, tokens: int) -> Iterator[Batch]:
        """The whole text in such batches: for validation."""


def check_size(updates: Updates, task: str, tokens_per_step: int) -> None:
    """Raise UserError where the text does not fill one update."""
    if updates.updates_per_epoch == 0:
        raise UserError(
            f"{task}.training.tokens_per_step: {tokens_per_step} is more than the whole training text; allowed: less"
        )


class Prepared(NamedTuple):
    counts: Tensor  # N, int64: targets of the whole update by type
    targets: int  # of the whole update
    batches: list[Batch]  # micro-batches of this process


class PreparedUpdates(Dataset):
    """Update by number (from 0), a pure function of it: so workers, a stop and a resume change nothing."""

    def __init__(self, data: Updates, vocabulary: int, micro_batch: int, rank: int = 0, processes: int = 1) -> None:
        self.data, self.vocabulary, self.micro_batch = data, vocabulary, micro_batch
        self.rank, self.processes = rank, processes

    def __getitem__(self, number: int) -> Prepared:
        chosen = self.data.update(number)
        counts = torch.from_numpy(self.data.counts(chosen, self.vocabulary))
        batches = list(self.data.cut(self.data.share(chosen, self.rank, self.processes), self.micro_batch))
        return Prepared(counts, self.data.targets(chosen), batches or [self._idle(chosen)])

    def _idle(self, chosen) -> Batch:
        """For a process that an update has nothing for: the others wait for its gradient, which is zero without targets."""
        batch = next(self.data.cut(chosen[:1], 1))
        return batch._replace(targets=torch.full_like(batch.targets, PAD))


def loaded(updates: PreparedUpdates, numbers: range, workers: int, device: torch.device) -> Iterator[Prepared]:
    """The updates of these numbers in order."""
    # A generator of its own: the loader draws from it, and the global one is that of the dropout masks.
    return iter(
        DataLoader(
            updates,
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            pin_memory=device.type == "cuda",
            generator=torch.Generator(),
        )
    )
