"""Assignment of sequences to training steps, and loading of their batches.

The data of a training step are a pure function of (data, seed, step number). A resumed run, another micro-batch size or more
processes therefore see the same sequences. Micro-batches only split the data of a step.

Torch's DataLoader prepares the data of the steps, in worker processes and, for a GPU, in pinned memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretokens.errors import UserError
from raretokens.loss.gated_cross_entropy import check_targets
from raretokens.vocabulary import PAD

LEAST_ON_GPU = 4096  # tokens; an estimate for Transformers of width 256 to 1,024, not measured


class Batch(NamedTuple):
    inputs: tuple[Tensor, ...]  # arguments of the model, each sequences x positions
    targets: Tensor  # sequences x positions; PAD at positions without a target
    rows: Tensor | None = None  # flat indices of the positions with a target, if the host has found them

    def with_rows(self, vocabulary: int) -> "Batch":
        """Find the positions with a target on the host, so that a GPU need not be waited for.

        Raises:
            IndexError: if a target is neither PAD nor in 0..vocabulary-1.
        """
        flat = self.targets.reshape(-1)
        rows = (flat != PAD).nonzero().squeeze(1)
        check_targets(flat[rows], vocabulary)
        return self._replace(rows=rows)

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            tuple(tensor.to(device, non_blocking=True) for tensor in self.inputs),
            self.targets.to(device, non_blocking=True),
            None if self.rows is None else self.rows.to(device, non_blocking=True),
        )


class StepData(ABC):
    """Data of a run, split into training steps; `indices` are those of one step's data."""

    steps_per_epoch: int
    in_order = False  # whether each batch of everything() needs the model state after the previous batch
    alone = ""  # why only one process can train on the data, if so

    @property
    @abstractmethod
    def length(self) -> float:
        """Mean number of positions of a sequence."""

    @abstractmethod
    def step(self, number: int) -> np.ndarray:
        """Return the index array of training step `number` (from 0), in a format private to the class."""

    @abstractmethod
    def counts(self, indices: np.ndarray, vocabulary: int) -> np.ndarray:
        """Count each type among the targets of a step (N, int64)."""

    def targets(self, indices: np.ndarray) -> int:
        """Return the number of targets over which the step's loss is averaged, in all micro-batches and processes."""
        return len(indices)

    def share(self, indices: np.ndarray, rank: int, processes: int) -> np.ndarray:
        """Return the part of a step that process `rank` trains on.

        Raises:
            UserError: there are several processes, and the data are for one.
        """
        if self.alone and processes > 1:
            raise UserError(f"{self.alone}: train on one process, not on {processes}")
        return indices[rank::processes]

    @abstractmethod
    def cut(self, indices: np.ndarray, tokens: int, least: int = 0) -> Iterator[Batch]:
        """Yield micro-batches of at most `tokens` tokens, padding included, but of at least one sequence.

        Args:
            least: `least_tokens` of the device. Up to this number, padding takes no time.
        """

    @abstractmethod
    def everything(self, tokens: int) -> Iterator[Batch]:
        """Yield the whole text in batches of at most `tokens` tokens, for validation."""


class Shuffled(StepData):
    """Items such as blocks or documents, reshuffled each epoch; a step has as many items as fit into tokens_per_step."""

    def __init__(self, items: int, item_tokens: int, tokens_per_step: int, seed: int) -> None:
        self.items, self.seed = items, seed
        self.per_step = max(tokens_per_step // item_tokens, 1)
        self.steps_per_epoch = items // self.per_step

    def step(self, number: int) -> np.ndarray:
        """Return the numbers of the items of step `number` (from 0)."""
        epoch, position = divmod(number, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(self.items)
        return order[position * self.per_step : (position + 1) * self.per_step]


def check_size(steps: StepData, task: str, tokens_per_step: int) -> None:
    """Raise UserError if the text is too short for one training step."""
    if steps.steps_per_epoch == 0:
        raise UserError(f"{task}.training.tokens_per_step: {tokens_per_step} is more than the whole training text; allowed: less")


def least_tokens(device: str) -> int:
    """Return the tokens of a forward and backward pass that fewer tokens make no faster on this type of device.

    The host starts the kernels of a GPU so slowly that the GPU waits in a short pass. A CPU has no such number.
    """
    return 0 if device == "cpu" else LEAST_ON_GPU


class Prepared(NamedTuple):
    counts: Tensor  # N, int64: targets of the whole step by type
    targets: int  # number of targets of the whole step
    batches: list[Batch]  # micro-batches of this process


class PreparedSteps(Dataset):
    """Dataset of training steps, indexed from 0. An item depends only on its index, so workers and resumes change nothing.

    device: type of the device, such as cuda; finds_rows: whether micro-batches contain the positions of their targets.
    """

    def __init__(
        self,
        data: StepData,
        vocabulary: int,
        micro_batch: int,
        rank: int = 0,
        processes: int = 1,
        device: str = "cpu",
        finds_rows: bool = False,
    ) -> None:
        self.data, self.vocabulary, self.micro_batch = data, vocabulary, micro_batch
        self.rank, self.processes, self.finds_rows = rank, processes, finds_rows
        self.least = least_tokens(device)

    def __getitem__(self, number: int) -> Prepared:
        chosen = self.data.step(number)
        counts = torch.from_numpy(self.data.counts(chosen, self.vocabulary))
        share = self.data.share(chosen, self.rank, self.processes)
        batches = list(self.data.cut(share, self.micro_batch, self.least))
        batches = batches or [self._idle(chosen)]
        if self.finds_rows:
            batches = [batch.with_rows(self.vocabulary) for batch in batches]
        return Prepared(counts, self.data.targets(chosen), batches)

    def _idle(self, chosen) -> Batch:
        """Return a batch without targets, for a process with no data in this step: the others wait for its zero gradient."""
        batch = next(self.data.cut(chosen[:1], 1))
        return batch._replace(targets=torch.full_like(batch.targets, PAD))


def loaded(steps: PreparedSteps, numbers: range, workers: int, device: torch.device) -> Iterator[Prepared]:
    """Return an iterator over the training steps of these numbers, in order."""
    # The loader needs its own generator, because the global one determines the dropout masks.
    options = {"num_workers": workers, "pin_memory": device.type == "cuda", "generator": torch.Generator()}
    return iter(DataLoader(steps, batch_size=None, sampler=numbers, **options))
