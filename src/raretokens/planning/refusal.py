"""No run starts that cannot end: memory and disk that it needs, against what there is."""

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
from raretokens.machine.settings import device
from raretokens.paths import DATA, MACHINE, RUNS, STATES, alignment, corpus, tokens, trained
from raretokens.planning import disk, memory
from raretokens.planning.data import Need
from raretokens.planning.plan import Planned, plan
from raretokens.planning.vocabulary import Text, encoded
from raretokens.run import Run
from raretokens.tokenization.token_files import META
from raretokens.training.config import TrainJob as Job

CERTAIN = 0.8  # estimates of memory are good to a quarter: refused is what would not fit even with that much of it


@dataclass(frozen=True)
class There:
    """Bytes that are free. disk: where runs train; left: where their outputs go, if that is another disk.

    device: of the GPU, or None where there is none. copies: of each output on the disk of outputs, with that in DVC's cache.
    """

    host: float
    disk: float
    device: float | None = None
    left: float | None = None
    copies: int = 1


def here(run: Run | None = None) -> There:
    """What this machine has. Files of the run's own resumable state count as free: it goes on writing them."""
    host, (disk, left) = psutil.virtual_memory().available, disks(STATES, RUNS)
    own = 0 if run is None else sum(path.stat().st_size for path in _state(run) if path.is_file())
    # Of several processes each asks about its own GPU: a question takes some memory of the one that it is about.
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.cuda.mem_get_info(number)[0] if torch.cuda.is_available() else None
    return There(host, disk + own, device, left, copies(RUNS, cache()))


def disks(training: Path, outputs: Path) -> tuple[int, int | None]:
    """Bytes that are free where runs train, and where they leave their outputs if that is another disk."""
    places = [_there(path) for path in (training, outputs)]
    scratch, left = (shutil.disk_usage(place).free for place in places)
    return scratch, None if places[0].stat().st_dev == places[1].stat().st_dev else left


def copies(outputs: Path, cache: Path) -> int:
    """Of each output on its disk: itself, and DVC's copy where the cache is there too and the file system keeps both apart."""
    return 1 + (_there(outputs).stat().st_dev == _there(cache).stat().st_dev)


def cache(config: Path = Path(".dvc")) -> Path:
    """DVC's cache of this scale, as its own configuration says."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([config / "config", config / "config.local"])
    return config / parser.get("cache", "dir", fallback="cache")


def _there(path: Path) -> Path:
    """The folder, or the nearest one above that there is: it will be made there."""
    return next(place for place in (path, *path.parents) if place.exists())


def _state(run: Run) -> Iterator[Path]:
    fingerprint = "[0-9a-f]" * 24
    return STATES.glob(f"{run.task}-{run.name}-{fingerprint}/*")


def check(job: Job) -> None:
    """Raise UserError where memory or disk of this machine will not do for a run; each process of several asks for itself."""
    processes, beside = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    text = encoded(job.run.tokens) or Text(0, None)
    lacking = list(shortfalls(plan(job, text, device(), processes), here(job.run), beside))
    if lacking:
        raise UserError("\n".join(lacking))


def shortfalls(planned: Planned, there: There, beside: int = 1) -> Iterator[str]:
    """One line for each thing that will not do: run, what is needed, what there is, what to change.

    beside: processes of the run on one machine, which share its memory.
    """
    name, step = f"{planned.run.task}/{planned.run.name}", planned.step
    if there.device is not None:
        yield from _memory(name, step, _on_device, there.device, "GPU memory")
    yield from _memory(name, step, lambda step: beside * memory.total(memory.on_host(step)), there.host, "memory")
    for needed, free, place in _needs(planned.disk_left, planned.disk_passing, there):
        if needed > free:
            key = f"{planned.run.task}.training.snapshot_every"
            yield f"{name}: needs {_gb(needed)} of disk in {place}, {_gb(free)} are free; free some or raise {key}"


def _needs(left: float, passing: float, there: There) -> list[tuple[float, float, Path]]:
    """Bytes needed, bytes free and where, of each disk."""
    left *= there.copies
    if there.left is None:
        return [(left + passing, there.disk, DATA)]
    return [(passing, there.disk, STATES), (left, there.left, RUNS)]


def all_together(planned: Sequence[Planned], there: There) -> Iterator[str]:
    """A line where the disk does not hold what runs that have yet to train leave, and what the largest needs besides."""
    waiting = [one for one in planned if not (trained(one.run.task, one.run.name) / "model.safetensors").exists()]
    texts = {one.run.tokens: one.text for one in waiting if not (tokens(one.run.tokens) / META).exists()}
    encoded = sum(disk.token_files(*text) for text in texts.values())
    left = encoded + sum(one.disk_left for one in waiting)
    passing = max((one.disk_passing for one in waiting), default=0.0)
    for needed, free, place in _needs(left, passing, there):
        if len(waiting) > 1 and needed > free:
            what = f"{_gb(needed)} of disk in {place}, {_gb(free)} are free"
            yield f"{len(waiting)} runs together need {what}; train fewer of them"


def before_training(needs: Iterable[Need], there: There) -> Iterator[str]:
    """A line for each stage of the data that has yet to run and that the memory will not do for."""
    for need in needs:
        if not _is_done(need.stage) and CERTAIN * need.memory > there.host:
            way = "; align fewer pairs (alignments.<name>.pairs), or" if need.stage.startswith("align") else ";"
            lacks = f"needs about {_gb(need.memory)} of memory, {_gb(there.host)} are free"
            yield f"{need.stage}: {lacks}{way} take a machine with more"


def _is_done(stage: str) -> bool:
    kind, _, name = stage.partition("@")
    return {"prepare": corpus, "encode": tokens, "align": alignment}[kind](name).exists()


def _on_device(step: memory.Step) -> float:
    return memory.total(memory.on_device(step))


def _memory(
    name: str, step: memory.Step, need: Callable[[memory.Step], float], there: float, what: str
) -> Iterator[str]:
    if math.isnan(need(step)) or CERTAIN * need(step) <= there:
        return
    needs, micro = f"{name}: needs about {_gb(need(step))} of {what}, {_gb(there)} are free", step.micro_batch
    while micro > step.length and need(_with(step, micro)) > there:
        micro //= 2
    micro = max(micro, step.length)
    if need(_with(step, micro)) <= there:
        yield f"{needs}; set micro_batch to {micro} in {MACHINE}, or take another GPU or machine"
    elif need(replace(_with(step, micro), snapshots=0.0)) <= there:
        yield f"{needs}; raise {step.name.split('/')[0]}.training.snapshot_every: copies of the table fill {_gb(step.snapshots)}"
    else:
        yield f"{needs}; no micro_batch is small enough, take another GPU or machine"


def _with(step: memory.Step, micro: int) -> memory.Step:
    return replace(step, micro_batch=micro, is_accumulated=step.is_accumulated or micro < step.micro_batch)


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f} GB"
