"""Updates made ready for the device: by torch's own loader, in processes of their own and in pinned memory on a GPU."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretokens.subword.vocabulary import PAD
from raretokens.training.updates import Batch, Updates


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
