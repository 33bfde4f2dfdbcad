"""Speed of a run, and the record of its training time and machine.

The reports show the record, but it is not an output of the pipeline, so equal runs have equal outputs.
"""

import json
import platform
import resource
import subprocess
import time
from pathlib import Path

import torch

from raretokens.files import write_text
from raretokens.paths import TIMING
from raretokens.pipeline.machine.cards import peak_flops

STATUS = Path("/proc/self/status")
CODE = (":/src", ":/stages", "params.yaml", "dvc.yaml")  # git paths that a run depends on, without the reports


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
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        self.flops_per_token, self.processes, self.peak = flops_per_token, processes, peak_flops(card)
        self.begin()

    def begin(self) -> None:
        self.start, self.tokens = time.monotonic(), 0

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


def unfinished(task: str, name: str) -> Path:
    """Return the path of the file in which ResourceUsage keeps its values until the run ends."""
    return TIMING / f"{task}-{name}.unfinished"


def record(task: str, name: str, usage: dict, speed: dict) -> None:
    """Write data/scratch/timing/<task>-<run>.json at the end of a run, from the facts of ResourceUsage and Speed."""
    facts = {"seconds": usage["seconds"], "machine": _machine(), "revision": revision(), **speed, **usage}
    write_text(TIMING / f"{task}-{name}.json", json.dumps(facts, indent=1) + "\n")
    unfinished(task, name).unlink(missing_ok=True)


def _machine() -> str:
    """Return the name of the GPU, or of the processor with the number of threads in use."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    """Return the processor's model name from /proc/cpuinfo, else its architecture."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def revision() -> str | None:
    """Return the commit, with suffix -dirty if code or parameters of a run are modified; None outside a git repository."""
    commit = _git("describe", "--always")
    return commit and commit + ("-dirty" if _git("status", "--porcelain", "--", *CODE) else "")


def _git(*command: str) -> str | None:
    try:
        done = subprocess.run(["git", *command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
