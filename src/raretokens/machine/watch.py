"""All that watches a run on this machine: progress, trackers, and at its end how long it took."""

import os
import time
from types import TracebackType

import torch

from raretokens.errors import UserError
from raretokens.machine import timing
from raretokens.machine.progress import Progress
from raretokens.machine.settings import Machine
from raretokens.machine.speed import Speed
from raretokens.machine.trackers import Trackers
from raretokens.models.building import flops_per_token
from raretokens.paths import MACHINE, SCRATCH, tokens
from raretokens.subword.streams import read_meta
from raretokens.tasks.record import record
from raretokens.training.job import Job
from raretokens.training.observer import Observer, Observers

TRACKED = SCRATCH / "trackers"


class Watch:
    """Observer of a training while the `with` lasts; a GPU that is too small becomes a UserError."""

    def __init__(self, job: Job, settings: Machine) -> None:
        run, self.job, self.settings = job.run, job, settings
        rank, processes = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        self.is_main = rank == 0
        rows = read_meta(tokens(run.tokens))["vocabulary"]
        positions = min(job.training.block, record(run.task).positions or job.training.block)
        self.speed = Speed(flops_per_token(run.architecture, run.shape, rows, positions), processes)
        name = f"{run.task}/{run.name}"
        progress = Progress(name, settings.report_seconds, self.speed, self.is_main)
        self.observer = Observers(progress, Trackers(settings.trackers, f"{run.task}-{run.name}", TRACKED))

    def __enter__(self) -> Observer:
        self.start = time.monotonic()
        return self.observer

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, torch.OutOfMemoryError):
            limit = f"{self.settings.micro_batch} tokens do not fit into the GPU's memory; allowed: fewer"
            raise UserError(f"{MACHINE}: micro_batch: {limit}") from None
        if kind is None and self.is_main:
            timing.record(self.job.run.task, self.job.run.name, self.start, self.speed.facts())
