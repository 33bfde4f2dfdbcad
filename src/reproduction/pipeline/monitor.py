"""Monitor of a training run: progress lines, resource usage, and trackers such as TensorBoard."""

import json
import os
import platform
import resource
import shutil
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import torch
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from raretokens.errors import UserError
from raretokens.files import write_text
from reproduction.corpora.tokenization.token_files import read_meta
from reproduction.paths import MACHINE, TIMING, TRACKED, tokens
from reproduction.pipeline.settings import Machine, find_card
from reproduction.tasks import describe
from reproduction.training.models.registry import flops_per_token
from reproduction.training.recipe import Observer, Observers, TrainJob

STATUS, CPUS = Path("/proc/self/status"), Path("/proc/cpuinfo")  # on Linux
PROJECT = "raretokens"
# Trackers that sort runs into projects: the option that names a run, and the option that names the folder of local files.
# The first argument of these trackers in accelerate is the project, and that of all others the run.
WITH_PROJECTS = {
    "wandb": ("name", "dir"),
    "swanlab": ("experiment_name", "logdir"),
    "trackio": ("name", None),
    "mlflow": ("run_name", None),
    "clearml": ("task_name", None),
}


def peak_memory() -> int:
    """Return the peak memory of this process in bytes: of tensors on the GPU, or resident memory without a GPU."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    if STATUS.exists():  # On Linux, getrusage includes the memory of the parent at the fork.
        return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().split("\n") if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


class Speed:
    """Training speed of a run since it started or resumed."""

    def __init__(self, flops_per_token: float, processes: int) -> None:
        card = find_card(torch.cuda.get_device_name()) if torch.cuda.is_available() else None
        self.flops_per_token, self.processes, self.peak = flops_per_token, processes, card and card.flops
        self.begin()

    def begin(self) -> None:
        self.start, self.tokens = time.monotonic(), 0
        self.ends: list[float] = []  # time at the end of each step

    def after_step(self, tokens: int, now: float) -> None:
        self.tokens += tokens
        self.ends.append(now)

    def step_seconds(self) -> float | None:
        """Return the median seconds of a step, without the first one, which warms up; None if there are no others."""
        seconds = [after - before for before, after in pairwise(self.ends)]
        return round(median(seconds), 6) if seconds else None

    def facts(self) -> dict[str, float | None]:
        """Return the speed of all processes together and the peak memory of this process.

        model_flop_utilisation is None if the GPU's peak is unknown.
        """
        rate = self.tokens / max(time.monotonic() - self.start, 1e-9)
        share = None if self.peak is None else rate * self.flops_per_token / (self.peak * self.processes)
        return {
            "processes": self.processes,
            "tokens_per_second": round(rate, 1),
            "model_flops_per_token": self.flops_per_token,
            "model_flop_utilisation": None if share is None else round(share, 4),
            "peak_memory_bytes": peak_memory(),
        }


class Monitor:
    """Context manager that yields the observer of a training, and writes data/scratch/timing/<task>-<run>.json at its end.

    The reports show this record of time and machine. It is no output of the pipeline, so equal runs have equal outputs. Only the
    first of several processes observes anything.

    Args:
        revision: of the code that trains, for the record.

    Raises:
        UserError: the GPU ran out of memory.
    """

    def __init__(self, job: TrainJob, settings: Machine, revision: str | None) -> None:
        run, self.settings, self.revision = job.run, settings, revision
        self.is_main = os.environ.get("RANK", "0") == "0"
        block, rows = job.training.block, read_meta(tokens(run.tokens))["vocabulary"]
        flops = flops_per_token(run.architecture, run.shape, rows, min(block, describe(run.task).positions or block))
        self.speed = Speed(flops, int(os.environ.get("WORLD_SIZE", "1")))
        self.trackers = Trackers(settings.trackers, f"{run.task}-{run.name}", TRACKED)
        self.usage = ResourceUsage(TIMING / f"{run.task}-{run.name}.unfinished", settings.save_seconds)
        progress = Progress(f"{run.task}/{run.name}", settings.report_seconds, self.speed)
        self.observer = Observers(*(self.usage, progress, self.trackers) if self.is_main else ())

    def __enter__(self) -> Observer:
        return self.observer

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.trackers.close()
        if isinstance(error, torch.OutOfMemoryError):
            limit = f"{self.settings.micro_batch} tokens do not fit into the GPU's memory; allowed: fewer"
            raise UserError(f"{MACHINE}: micro_batch: {limit}") from None
        if kind is None and self.is_main:
            facts = {"machine": _machine(), "revision": self.revision, **self.speed.facts(), **self.usage.facts()}
            facts["step_seconds"] = self.speed.step_seconds()
            write_text(self.usage.file.with_suffix(".json"), json.dumps(facts, indent=1) + "\n")
            self.usage.file.unlink(missing_ok=True)


class Progress(Observer):
    """Prints at most one line every `seconds` seconds and a line for each validation, and counts tokens for the speed."""

    def __init__(self, name: str, seconds: float, speed: Speed) -> None:
        self.name, self.seconds, self.speed = name, seconds, speed

    def begins(self, done: int, steps: int) -> None:
        self.done, self.steps = done, steps
        self.speed.begin()
        self.start = self.last = time.monotonic()

    def remarked(self, text: str) -> None:
        print(f"{self.name}  {text}", flush=True)

    def after_step(self, row: dict, tokens: int) -> None:
        now, step = time.monotonic(), row["update"]
        self.speed.after_step(tokens, now)
        if row["valid_nll"] is not None:
            self.remarked(f"step {step}  validation NLL {row['valid_nll']:.4f}")
        if now - self.last < self.seconds and step < self.steps:
            return
        self.last, left = now, (now - self.start) / max(step - self.done, 1) * (self.steps - step)
        self.remarked(
            f"step {step}/{self.steps}  loss {row['loss']:.3f}  nll {row['nll']:.3f}  "
            f"{speed_text(self.speed.facts())}  {clock(left)} left"
        )


class ResourceUsage(Observer):
    """Seconds and peak memory of a run, added up over all interruptions. Steps that repeat after a kill count twice.

    Args:
        file: keeps the values until the run ends.
        every: seconds between two saves.
    """

    def __init__(self, file: Path, every: float) -> None:
        self.file, self.every = file, every
        self.seconds, self.peak = 0.0, 0
        self.start = self.saved = time.monotonic()

    def begins(self, done: int, steps: int) -> None:
        """Continue from the saved values. A run that starts over because its parameters changed starts at zero."""
        if done and self.file.is_file():
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            self.seconds, self.peak = kept["seconds"], kept["peak_memory_bytes"]

    def after_step(self, row: dict, tokens: int) -> None:
        if time.monotonic() - self.saved > self.every:
            write_text(self.file, json.dumps(self.facts()) + "\n")
            self.saved = time.monotonic()

    def facts(self) -> dict[str, float]:
        """Return the total seconds and the peak memory in bytes over all successive processes of the run."""
        seconds = self.seconds + time.monotonic() - self.start
        return {"seconds": round(seconds, 1), "peak_memory_bytes": max(self.peak, peak_memory())}


class Trackers(Observer):
    """Sends the training log to the trackers of accelerate that machine.yaml names.

    Trackers that write files write to <folder>/<kind>/<run>. A run that starts over removes the previous content. After an
    interruption, the steps since the last save are sent again with identical values.

    Args:
        kinds: options of each tracker, by its name in accelerate. They replace the options that are set here.
    """

    def __init__(self, kinds: Mapping[str, Mapping[str, Any]], run: str, folder: Path) -> None:
        self.kinds, self.run, self.folder = kinds, run, folder
        self.trackers: list[GeneralTracker] = []

    def begins(self, done: int, steps: int) -> None:
        """Start the trackers. Raises UserError if one is not installed, or does not know an option."""
        for kind, options in self.kinds.items():
            folder = self.folder / kind / self.run
            if not done:
                shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                tracker = self._tracker(kind, {**_tracker_defaults(kind, self.run, folder, done > 0), **options})
                tracker.start()
            except ImportError:
                raise UserError(f"{MACHINE}: trackers: {kind} is not installed; pip install {kind}") from None
            except TypeError as error:
                raise UserError(
                    f"{MACHINE}: trackers: {kind}: options {dict(options)} are not allowed: {error}"
                ) from error
            self.trackers.append(tracker)

    def _tracker(self, kind: str, options: dict[str, Any]) -> GeneralTracker:
        known = LOGGER_TYPE_TO_CLASS[kind]
        name = options.pop("project", PROJECT) if kind in WITH_PROJECTS else self.run
        if known.requires_logging_directory:
            options.setdefault("logging_dir", str(self.folder / kind))
        return known(name, **options)

    def after_step(self, row: dict, tokens: int) -> None:
        values = {name: value for name, value in row.items() if name != "update" and value is not None}
        for tracker in self.trackers:
            tracker.log(values, step=row["update"])

    def close(self) -> None:
        """Flush and close the trackers."""
        for tracker in self.trackers:
            tracker.finish()


def _tracker_defaults(kind: str, run: str, folder: Path, is_resumed: bool) -> dict[str, Any]:
    """Return the options of a tracker that machine.yaml need not set."""
    if kind == "dvclive":  # It must neither save a DVC experiment nor write a dvc.yaml, since the pipeline has its own.
        return {"dir": str(folder), "resume": is_resumed, "save_dvc_exp": False, "dvcyaml": None}
    name, place = WITH_PROJECTS.get(kind, (None, None))
    return ({name: run} if name else {}) | ({place: str(folder.parent)} if place else {})


def _machine() -> str:
    """Return the name of the GPU, or of the processor with the number of threads in use."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    lines = CPUS.read_text(encoding="utf-8").splitlines() if CPUS.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    processor, threads = next(names, platform.machine()), torch.get_num_threads()
    return f"{processor}, {threads} thread{'s' if threads > 1 else ''}"


def speed_text(facts: dict) -> str:
    """Format speed, model FLOP utilisation if known, and peak memory."""
    share = facts["model_flop_utilisation"]
    parts = [f"{facts['tokens_per_second']:,.0f} tokens/s", f"{facts['peak_memory_bytes'] / 1e9:.1f} GB"]
    return "  ".join(parts if share is None else [parts[0], f"MFU {share:.0%}", parts[1]])


def clock(seconds: float) -> str:
    """Format seconds as minutes:seconds, or hours:minutes:seconds from one hour on."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02d}:{int(seconds) % 60:02d}" if hours else f"{minutes}:{int(seconds) % 60:02d}"
