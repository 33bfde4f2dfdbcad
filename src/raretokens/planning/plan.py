"""What each run of a run sheet needs. Hours are those of 40 % of the card's peak unless said otherwise."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from raretokens.errors import UserError
from raretokens.machine import settings
from raretokens.models.registry import flops_per_token
from raretokens.paths import MACHINE
from raretokens.planning import disk, memory
from raretokens.planning.forward import Forward, follow
from raretokens.planning.penalty import penalty
from raretokens.planning.vocabulary import Text
from raretokens.run import Run
from raretokens.tasks.record import record
from raretokens.training.config import Training
from raretokens.training.config import TrainJob as Job

UTILISATION = 0.4


@dataclass(frozen=True)
class Planned:
    """A run's needs; bytes unless said otherwise."""

    job: Job
    text: Text
    step: memory.Step

    @property
    def run(self) -> Run:
        return self.job.run

    @property
    def training(self) -> Training:
        return self.job.training

    @property
    def parameters(self) -> int:
        """Trained numbers."""
        return self.step.forward.parameters

    @property
    def sides(self) -> int:
        """2: source and target."""
        return len(record(self.run.task).sides)

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
        positions = min(block, record(self.run.task).positions or block)
        return flops_per_token(self.run.architecture, self.run.shape, self.text.rows, positions)

    def hours(self, flops: float, cards: int = 1, utilisation: float = UTILISATION) -> float:
        """On cards of that many operations a second."""
        return self.flops / (cards * flops * utilisation) / 3600

    @property
    def disk_left(self) -> float:
        return disk.left(self.training, self.step.width, self.text.rows, self.parameters)

    @property
    def disk_passing(self) -> float:
        return disk.passing(self.training, self.step.width, self.text.rows, self.parameters)


def named(jobs: Iterable[Job], names: list[str]) -> list[Job]:
    """The runs called so, `gpt2m-agg` or `lm/gpt2m-agg`; all of them without names. Raises UserError on an unknown name."""
    every = {f"{job.run.task}/{job.run.name}": job for job in jobs}
    chosen = {full for name in names for full in every if name in (full, full.split("/")[1])}
    for name in names:
        if not any(name in (full, full.split("/")[1]) for full in every):
            known = ", ".join(job.run.name for job in every.values())
            raise UserError(f"no run named {name!r}; the run sheet has {known}")
    return [job for full, job in every.items() if not names or full in chosen]


def plan(job: Job, text: Text, device: str, processes: int = 1) -> Planned:
    """Needs of a run on `device` (cpu or cuda), shared by that many processes."""
    run, training = job.run, job.training
    share = max(training.tokens_per_update // processes, training.block)
    micro = share if record(run.task).whole_updates else min(micro_batch(device), share)
    model = forward(job, text.rows, device)
    step = memory.Step(
        name=f"{run.task}/{run.name}",
        forward=model,
        vocabulary=text.rows,
        micro_batch=max(micro, training.block),
        is_accumulated=micro < share,
        half=training.precision == "bfloat16",
        device=device,
        objective=penalty(run, text.rows, model.width),
        snapshots=disk.snapshots(training, model.width, text.rows),
        processes=processes,
    )
    return Planned(job, text, step)


def forward(job: Job, rows: int, device: str) -> Forward:
    """A pass of the run's model, with a table of so many rows."""
    run, training = job.run, job.training
    sides, is_half = len(record(run.task).sides), training.precision == "bfloat16"
    return follow(run.architecture, json.dumps(run.shape), rows, training.block, sides, is_half, device)


def micro_batch(device: str) -> int:
    return settings.read().micro_batch if MACHINE.exists() else settings.MICRO_BATCH[device]
