"""Refusal of runs that cannot finish: the memory and disk that they need, against the resources of this machine."""

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
from raretokens.pipeline.planning.memory import Step
from raretokens.pipeline.planning.plan import Planned, plan
from raretokens.run import Run
from raretokens.tokenization.token_files import META
from raretokens.training.config import TrainJob

# Share of the estimated memory that a run takes at least: activations on a GPU are overestimated by a factor of up to 1.4.
CERTAIN = 0.7


@dataclass(frozen=True)
class Resources:
    """Free bytes of a machine.

    disk: where runs train; output_disk: where their outputs go, if that is another disk. device: of the GPU, or None without one.
    copies: of each output on the disk of outputs, DVC's cache included.
    """

    host: float
    disk: float
    device: float | None = None
    output_disk: float | None = None
    copies: int = 1


def available(run: Run | None = None) -> Resources:
    """Resources of this machine. Files of the run's own resumable state count as free, since they are overwritten."""
    host, (disk, outputs) = psutil.virtual_memory().available, free_disks(STATES, RUNS)
    own = 0 if run is None else sum(path.stat().st_size for path in _state(run) if path.is_file())
    # Each of several processes queries its own GPU, since the query itself takes some memory of that GPU.
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.cuda.mem_get_info(number)[0] if torch.cuda.is_available() else None
    return Resources(host, disk + own, device, outputs, copies(RUNS, cache()))


def free_disks(training: Path, outputs: Path) -> tuple[int, int | None]:
    """Free bytes where runs train, and where they leave their outputs if that is another disk."""
    places = [_existing(path) for path in (training, outputs)]
    scratch, left = (shutil.disk_usage(place).free for place in places)
    return scratch, None if places[0].stat().st_dev == places[1].stat().st_dev else left


def copies(outputs: Path, cache: Path) -> int:
    """Copies of each output on its disk: the output, and DVC's copy where the cache is on the same file system."""
    return 1 + (_existing(outputs).stat().st_dev == _existing(cache).stat().st_dev)


def cache(config: Path = Path(".dvc")) -> Path:
    """DVC's cache of this scale, as its own configuration says."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([config / "config", config / "config.local"])
    return config / parser.get("cache", "dir", fallback="cache")


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above that exists: the folder will be made there."""
    return next(place for place in (path, *path.parents) if place.exists())


def _state(run: Run) -> Iterator[Path]:
    fingerprint = "[0-9a-f]" * 24
    return STATES.glob(f"{run.task}-{run.name}-{fingerprint}/*")


def check(job: TrainJob) -> None:
    """Raise UserError where memory or disk of this machine does not suffice; each of several processes checks for itself."""
    processes, neighbours = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    text = encoded(job.run.tokens) or Text(0, None)
    lacking = list(shortfalls(plan(job, text, device(), processes), available(job.run), neighbours))
    if lacking:
        raise UserError("\n".join(lacking))


def shortfalls(planned: Planned, free: Resources, processes: int = 1) -> Iterator[str]:
    """One line for each shortage: run, what is needed, what is free, what to change.

    processes: of the run on one machine, which share its memory.
    """
    name, step = f"{planned.run.task}/{planned.run.name}", planned.step
    if free.device is not None:
        yield from _memory(name, step, lambda step: step.device_bytes, free.device, "GPU memory")
    yield from _memory(name, step, lambda step: processes * step.host_bytes, free.host, "memory")
    for needed, there, place in _disk_needs(planned.disk_left, planned.disk_while_training, free):
        if needed > there:
            key = f"{planned.run.task}.training.snapshot_every"
            yield f"{name}: needs {_gb(needed)} of disk in {place}, {_gb(there)} are free; free some or raise {key}"


def _disk_needs(left: float, while_training: float, free: Resources) -> list[tuple[float, float, Path]]:
    """Bytes needed, bytes free and where, of each disk."""
    left *= free.copies
    if free.output_disk is None:
        return [(left + while_training, free.disk, DATA)]
    return [(while_training, free.disk, STATES), (left, free.output_disk, RUNS)]


def shared_shortfalls(planned: Sequence[Planned], free: Resources) -> Iterator[str]:
    """A line where the disk does not suffice for all runs that have yet to train, and the largest one while it trains."""
    waiting = [one for one in planned if not (trained(one.run.task, one.run.name) / "model.safetensors").exists()]
    texts = {one.run.tokens: one.text for one in waiting if not (tokens(one.run.tokens) / META).exists()}
    left = sum(text.disk for text in texts.values()) + sum(one.disk_left for one in waiting)
    while_training = max((one.disk_while_training for one in waiting), default=0.0)
    for needed, there, place in _disk_needs(left, while_training, free):
        if len(waiting) > 1 and needed > there:
            what = f"{_gb(needed)} of disk in {place}, {_gb(there)} are free"
            yield f"{len(waiting)} runs together need {what}; train fewer of them"


def data_shortfalls(needs: Iterable[Need], free: Resources) -> Iterator[str]:
    """A line for each stage before training that has yet to run and for which the memory does not suffice."""
    for need in needs:
        if not _is_done(need.stage) and CERTAIN * need.memory > free.host:
            way = "; align fewer pairs (alignments.<name>.max_pairs), or" if need.stage.startswith("align") else ";"
            lacks = f"needs about {_gb(need.memory)} of memory, {_gb(free.host)} are free"
            yield f"{need.stage}: {lacks}{way} take a machine with more"


def _is_done(stage: str) -> bool:
    kind, _, name = stage.partition("@")
    return {"prepare": corpus, "encode": tokens, "align": alignment}[kind](name).exists()


def _memory(name: str, step: Step, need: Callable[[Step], float], free: float, what: str) -> Iterator[str]:
    """A line where the memory does not suffice, with a change that helps; none where the need is unknown (NaN)."""
    if math.isnan(need(step)) or CERTAIN * need(step) <= free:
        return
    needs = f"{name}: needs about {_gb(need(step))} of {what}, {_gb(free)} are free"
    micro, length = step.micro_batch, step.forward.positions
    while micro > length and need(_with_micro_batch(step, micro)) > free:
        micro //= 2
    smallest = _with_micro_batch(step, max(micro, length))
    if need(smallest) <= free:
        yield f"{needs}; set micro_batch to {smallest.micro_batch} in {MACHINE}, or take another GPU or machine"
    elif need(replace(smallest, snapshots=0.0)) <= free:
        key = f"{step.name.split('/')[0]}.training.snapshot_every"
        yield f"{needs}; raise {key}: copies of the embedding matrix fill {_gb(step.snapshots)}"
    else:
        yield f"{needs}; no micro_batch is small enough, take another GPU or machine"


def _with_micro_batch(step: Step, micro: int) -> Step:
    return replace(step, micro_batch=micro, is_accumulated=step.is_accumulated or micro < step.micro_batch)


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f} GB"
