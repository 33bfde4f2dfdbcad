"""Refusal of runs that need more memory or disk than is free on this machine."""

import configparser
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from raretokens.errors import UserError
from raretokens.paths import DATA, MACHINE, RUNS, STATES, alignment, corpus, tokens, trained
from raretokens.pipeline.machine.settings import device
from raretokens.pipeline.planning.data import Need, Text, encoded
from raretokens.pipeline.planning.plan import Planned, plan
from raretokens.run import Run
from raretokens.tokenization.token_files import META
from raretokens.training.config import TrainJob

# Fraction of the estimated memory that a run needs at least. Activations on a GPU are overestimated by a factor of up to 1.4.
CERTAIN = 0.7


@dataclass(frozen=True)
class Resources:
    """Free bytes of a machine."""

    host: float  # memory of the host
    disk: float  # disk on which runs train
    device: float | None = None  # memory of the GPU; None without a GPU
    output_disk: float | None = None  # disk of the outputs of runs, if it is another disk
    copies: int = 1  # copies of each output on the disk of outputs, including DVC's cache


def available(run: Run | None = None) -> Resources:
    """Return the free resources. The run's own resumable state counts as free space, since it is overwritten."""
    host, (disk, outputs) = psutil.virtual_memory().available, free_disks()
    state = STATES.glob(f"{run.task}-{run.name}-{'[0-9a-f]' * 24}/*") if run else ()
    own = sum(path.stat().st_size for path in state if path.is_file())
    # Each process queries only its own GPU, since the query allocates memory on that GPU.
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.cuda.mem_get_info(number)[0] if torch.cuda.is_available() else None
    return Resources(host, disk + own, device, outputs, copies())


def free_disks() -> tuple[int, int | None]:
    """Return the free bytes on the disk where runs train, and on the disk of their outputs (None if it is the same)."""
    folders = [_existing(path) for path in (STATES, RUNS)]
    scratch, left = (shutil.disk_usage(folder).free for folder in folders)
    return scratch, None if folders[0].stat().st_dev == folders[1].stat().st_dev else left


def copies() -> int:
    """Return the copies of each output on its disk: 2 if DVC's cache is on the same file system, else 1."""
    return 1 + (_existing(RUNS).stat().st_dev == _existing(cache()).stat().st_dev)


def cache() -> Path:
    """Return the path of this scale's DVC cache, from its DVC configuration."""
    parser, config = configparser.ConfigParser(interpolation=None), Path(".dvc")
    parser.read([config / "config", config / "config.local"])
    return config / parser.get("cache", "dir", fallback="cache")


def _existing(path: Path) -> Path:
    """Return the folder, or its nearest existing parent, in which it will be created."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def check(job: TrainJob) -> None:
    """Raise UserError if memory or disk of this machine does not suffice. Each process of a run checks separately."""
    processes, neighbours = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    text = encoded(job.run.tokens) or Text(0, None)
    lacking = list(shortfalls(plan(job, text, device(), processes), available(job.run), neighbours))
    if lacking:
        raise UserError("\n".join(lacking))


def shortfalls(planned: Planned, free: Resources, processes: int = 1) -> Iterator[str]:
    """Yield one line for each shortage: the run, the need, the free amount, and what to change.

    Args:
        processes: processes of the run that share the memory of one machine.
    """
    if free.device is not None:
        yield from _memory(planned, lambda one: one.device_bytes, free.device, "GPU memory")
    yield from _memory(planned, lambda one: processes * one.host_bytes, free.host, "memory")
    for needed, there, folder in _disk_needs(planned.disk_left, planned.disk_while_training, free):
        if needed > there:
            key = f"{planned.run.task}.training.snapshot_every"
            yield f"{planned.name}: needs {_gb(needed)} of disk in {folder}, {_gb(there)} are free; free some or raise {key}"


def _disk_needs(left: float, while_training: float, free: Resources) -> list[tuple[float, float, Path]]:
    """Return bytes needed, bytes free, and the path, for each disk."""
    left *= free.copies
    if free.output_disk is None:
        return [(left + while_training, free.disk, DATA)]
    return [(while_training, free.disk, STATES), (left, free.output_disk, RUNS)]


def shared_shortfalls(planned: Sequence[Planned], free: Resources) -> Iterator[str]:
    """Yield a line if the disk does not suffice for the outputs of all untrained runs and the training of the largest."""
    waiting = [one for one in planned if not (trained(one.run.task, one.run.name) / "model.safetensors").exists()]
    texts = {one.run.tokens: one.text for one in waiting if not (tokens(one.run.tokens) / META).exists()}
    left = sum(text.disk for text in texts.values()) + sum(one.disk_left for one in waiting)
    while_training = max((one.disk_while_training for one in waiting), default=0.0)
    for needed, there, folder in _disk_needs(left, while_training, free):
        if len(waiting) > 1 and needed > there:
            what = f"{_gb(needed)} of disk in {folder}, {_gb(there)} are free"
            yield f"{len(waiting)} runs together need {what}; train fewer of them"


def data_shortfalls(needs: Iterable[Need], free: Resources) -> Iterator[str]:
    """Yield a line for each stage before training that has not run and needs more memory than is free."""
    folder_of = {"prepare": corpus, "encode": tokens, "align": alignment}
    for need in needs:
        kind, _, name = need.stage.partition("@")
        if not folder_of[kind](name).exists() and CERTAIN * need.memory > free.host:
            way = "; align fewer pairs (alignments.<name>.max_pairs), or" if kind == "align" else ";"
            lacks = f"needs about {_gb(need.memory)} of memory, {_gb(free.host)} are free"
            yield f"{need.stage}: {lacks}{way} take a machine with more"


def _memory(planned: Planned, need: Callable[[Planned], float], free: float, what: str) -> Iterator[str]:
    """Yield a line if the memory does not suffice, with a remedy. An unknown need (NaN) yields nothing."""
    if math.isnan(need(planned)) or CERTAIN * need(planned) <= free:
        return
    needs = f"{planned.name}: needs about {_gb(need(planned))} of {what}, {_gb(free)} are free"
    smallest, length = planned, planned.forward.positions
    while smallest.micro_batch > length and need(smallest) > free:
        smallest = replace(smallest, micro_batch=max(smallest.micro_batch // 2, length))
    if need(smallest) <= free:
        yield f"{needs}; set micro_batch to {smallest.micro_batch} in {MACHINE}, or take another GPU or machine"
    elif need(replace(smallest, snapshots=0.0)) <= free:
        key = f"{planned.run.task}.training.snapshot_every"
        yield f"{needs}; raise {key}: copies of the embedding matrix fill {_gb(planned.snapshots)}"
    else:
        yield f"{needs}; no micro_batch is small enough, take another GPU or machine"


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f} GB"
