"""How long a run took and on what: said in the reports, but no output of the pipeline, so that equal runs stay equal."""

import json
import platform
import subprocess
import time

import torch

from raretokens.files import write_text
from raretokens.paths import TIMING

CODE = (":/src", ":/stages", "params.yaml", "dvc.yaml")  # what a run depends on: not the reports, which are made anew


def record(task: str, name: str, start: float, speed: dict) -> None:
    """Write data/scratch/timing/<task>-<run>.json; start is time.monotonic() when this process began to train.

    speed: Speed.facts at the end.
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    facts = {
        "seconds": round(time.monotonic() - start, 1),
        "machine": gpu or f"{platform.machine()}, {torch.get_num_threads()} threads",
        "revision": revision(),
        **speed,
    }
    write_text(TIMING / f"{task}-{name}.json", json.dumps(facts, indent=1) + "\n")


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
