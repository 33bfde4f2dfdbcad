"""All that watches a run on this machine: progress, trackers, and at its end how long it took."""

import os
from types import TracebackType

import torch

from raretokens.errors import UserError
from raretokens.machine import timing
from raretokens.machine.progress import Progress
from raretokens.machine.settings import Machine
from raretokens.machine.speed import Speed
from raretokens.machine.spent import Spent
from raretokens.machine.trackers import Trackers
from raretokens.models.registry import flops_per_token
from raretokens.paths import MACHINE, TRACKED, tokens
from raretokens.tasks.record import record
from raretokens.tokenization.token_files import read_meta
from raretokens.training.config import TrainJob as Job
from raretokens.training.observer import Observer, Observers


class Watch:
    """Observer of a training while the `with` lasts; a GPU that is too small becomes a UserError."""

    def __init__(self, job: Job, settings: Machine) -> None:
        run, self.job, self.settings = job.run, job, settings
        self.is_main = os.environ.get("RANK", "0") == "0"
        self.speed = Speed(_flops_per_token(job), int(os.environ.get("WORLD_SIZE", "1")))
        progress = Progress(f"{run.task}/{run.name}", settings.report_seconds, self.speed, self.is_main)
        self.trackers = Trackers(settings.trackers if self.is_main else (), f"{run.task}-{run.name}", TRACKED)
        self.spent = Spent(timing.unfinished(run.task, run.name), settings.save_seconds, self.is_main)
        self.observer = Observers(self.spent, progress, self.trackers)

    def __enter__(self) -> Observer:
        return self.observer

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.trackers.close()
        if isinstance(error, torch.OutOfMemoryError):
            limit = f"{self.settings.micro_batch} tokens do not fit into the GPU's memory; allowed: fewer"
            raise UserError(f"{MACHINE}: micro_batch: {limit}") from None
        if kind is None and self.is_main:
            timing.record(self.job.run.task, self.job.run.name, self.spent.facts(), self.speed.facts())


def _flops_per_token(job: Job) -> float:
    run, block = job.run, job.training.block
    rows = read_meta(tokens(run.tokens))["vocabulary"]
    return flops_per_token(run.architecture, run.shape, rows, min(block, record(run.task).positions or block))
