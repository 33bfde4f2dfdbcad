"""Refusal of runs that need more memory or disk than is free on this machine."""

import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import torch

from raretokens.errors import UserError
from reproduction.paths import DATA, MACHINE, STATES
from reproduction.pipeline.machine.settings import device
from reproduction.pipeline.planning.plan import Planned, plan
from reproduction.pipeline.planning.vocabulary_size import encoded_size
from reproduction.run import Run
from reproduction.training.recipe import TrainJob

CERTAIN = 0.6  # a run is refused if even this share of its estimated memory is not free


@dataclass(frozen=True)
class Resources:
    """Free bytes of a machine."""

    host: float
    disk: float
    device: float | None = None  # memory of the GPU; None without a GPU


def available(run: Run | None = None) -> Resources:
    """Return the free resources. The run's own resumable state counts as free space, since it is overwritten."""
    state = STATES.glob(f"{run.task}-{run.name}-{'[0-9a-f]' * 24}/*") if run else ()
    own = sum(path.stat().st_size for path in state if path.is_file())
    folder = next(folder for folder in (DATA, *DATA.parents) if folder.exists())
    # Each process queries only its own GPU, since the query allocates memory on that GPU.
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.cuda.mem_get_info(number)[0] if torch.cuda.is_available() else None
    return Resources(psutil.virtual_memory().available, shutil.disk_usage(folder).free + own, device)


def check(job: TrainJob) -> None:
    """Raise UserError if memory or disk of this machine does not suffice. Each process of a run checks separately."""
    processes, neighbours = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    planned = plan(job, encoded_size(job.run.tokens) or 0, device(), processes)
    if lacking := list(shortfalls(planned, available(job.run), neighbours)):
        raise UserError("\n".join(lacking))


def shortfalls(planned: Planned, free: Resources, processes: int = 1) -> Iterator[str]:
    """Yield one line for each shortage, with what to change; `processes` of the run share the memory of the machine."""
    advice = f"lower micro_batch ({planned.micro_batch}) in {MACHINE}, or take another GPU or machine"
    if free.device is not None and CERTAIN * planned.memory > free.device:
        yield f"{planned.name}: needs about {_gb(planned.memory)} of GPU memory, {_gb(free.device)} are free; {advice}"
    if CERTAIN * processes * planned.host_memory > free.host:
        needed = processes * planned.host_memory
        yield f"{planned.name}: needs about {_gb(needed)} of memory, {_gb(free.host)} are free; {advice}"
    if (needed := planned.disk + planned.disk_while_training) > free.disk:
        key = f"{planned.run.task}.training.snapshot_every"
        yield f"{planned.name}: needs {_gb(needed)} of disk in {DATA}, {_gb(free.disk)} are free; free some or raise {key}"


def fits(need: float, free: float) -> str:
    """Return whether an estimated need fits; `tight` if the estimate is too uncertain to refuse the run."""
    if math.isnan(need):
        return "unknown"
    return "yes" if need <= free else "tight" if CERTAIN * need <= free else "no"


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f} GB"
