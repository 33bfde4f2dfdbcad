"""What each run of a run sheet needs. Hours are those of 40 % of the card's peak unless said otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch

from raretokens.config import Parameters, Run, Size, Training, UserError
from raretokens.models import build
from raretokens.models.flops import flops_per_token
from raretokens.planning import disk, memory
from raretokens.planning.penalty import penalty
from raretokens.planning.vocabulary import Text, text
from raretokens.training import machine

SENTENCE = 32  # mean positions of a sentence of translation: attention is counted for these, memory for the longest
UTILISATION = 0.4


@dataclass(frozen=True)
class Planned:
    """A run's needs; bytes unless said otherwise."""

    run: Run
    size: Size
    training: Training
    text: Text
    parameters: int
    step: memory.Step

    @property
    def tokens(self) -> int:
        """Target tokens of the whole training; of translation an upper bound, padding counted."""
        return self.training.updates * self.training.tokens_per_update

    @property
    def flops(self) -> float:
        """Operations of the whole training, attention included."""
        return self.tokens * self._per_token(self.training.block)

    @property
    def attention_flops(self) -> float:
        """The part of attention scores, which 6 x parameters x tokens leaves out."""
        return self.flops - self.tokens * self._per_token(0)

    def _per_token(self, block: int) -> float:
        positions = block if self.run.task == "lm" else min(block, SENTENCE)
        return flops_per_token(self.run.task, self.size, self.text.rows, positions)

    def hours(self, flops: float, cards: int = 1, utilisation: float = UTILISATION) -> float:
        """On cards of that many operations a second."""
        return self.flops / (cards * flops * utilisation) / 3600

    @property
    def disk_left(self) -> float:
        return disk.left(self.training, self.size, self.text.rows, self.parameters)

    @property
    def disk_passing(self) -> float:
        return disk.passing(self.training, self.size, self.text.rows, self.parameters)


def runs(parameters: Parameters) -> Iterator[Run]:
    for task in ("lm", "nmt"):
        for name in getattr(parameters.runs, task):
            yield parameters.run(task, name)


def named(parameters: Parameters, names: list[str]) -> list[Run]:
    """The runs called so, `gpt2m-agg` or `lm/gpt2m-agg`; all of them without names. Raises UserError on an unknown name."""
    every = list(runs(parameters))
    for name in names:
        if not any(name in (run.name, f"{run.task}/{run.name}") for run in every):
            raise UserError(f"no run named {name!r}; the run sheet has {', '.join(run.name for run in every)}")
    return [run for run in every if not names or run.name in names or f"{run.task}/{run.name}" in names]


def plan(parameters: Parameters, run: Run, device: str, processes: int = 1) -> Planned:
    """Needs of a run on `device` (cpu or cuda), shared by that many processes."""
    size, training = parameters.task(run.task).sizes[run.size], parameters.training(run)
    found = text(parameters, run.tokens)
    numbers = parameter_count(run.task, size, found.rows, training.block)
    share = max(training.tokens_per_update // processes, training.block)
    micro = min(micro_batch(device), share)
    step = memory.Step(
        task=run.task,
        shape=size,
        vocabulary=found.rows,
        parameters=numbers,
        micro_batch=max(micro, training.block),
        length=training.block,
        is_accumulated=micro < share,
        half=training.precision == "bfloat16",
        device=device,
        objective=penalty(run, found.rows, size.width),
        snapshots=disk.snapshots(training, size, found.rows),
        processes=processes,
    )
    return Planned(run, size, training, found, numbers, step)


@cache
def parameter_count(task: str, size: Size, rows: int, positions: int) -> int:
    """Trained numbers of a model, which is built without memory."""
    with torch.device("meta"):
        model = build(task, size, rows, positions)
    return sum(parameter.numel() for parameter in model.parameters())


def micro_batch(device: str) -> int:
    return machine.read().micro_batch if machine.FILE.exists() else machine.MICRO_BATCH[device]
