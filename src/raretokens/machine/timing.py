"""How long a run took and on what: said in the reports, but no output of the pipeline, so that equal runs stay equal."""

import json
import platform
import subprocess
from pathlib import Path

import torch

from raretokens.files import write_text
from raretokens.paths import TIMING

CODE = (":/src", ":/stages", "params.yaml", "dvc.yaml")  # what a run depends on: not the reports, which are made anew


def unfinished(task: str, name: str) -> Path:
    """Where Spent keeps what a run took until it ends."""
    return TIMING / f"{task}-{name}.unfinished"


def record(task: str, name: str, spent: dict, speed: dict) -> None:
    """Write data/scratch/timing/<task>-<run>.json from Spent.facts and Speed.facts at the end."""
    facts = {"seconds": spent["seconds"], "machine": _machine(), "revision": revision(), **speed, **spent}
    write_text(TIMING / f"{task}-{name}.json", json.dumps(facts, indent=1) + "\n")
    unfinished(task, name).unlink(missing_ok=True)


def _machine() -> str:
    """The card, or the processor and the number of its threads."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    """Its name, where Linux says it; else the architecture."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def revision() -> str | None:
    """The commit of the code, -dirty where a run's code or parameters differ from it; None outside a git repository."""
    commit = _git("describe", "--always")
    return commit and commit + ("-dirty" if _git("status", "--porcelain", "--", *CODE) else "")


def _git(*command: str) -> str | None:
    try:
        asked = subprocess.run(["git", *command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
