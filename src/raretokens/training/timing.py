"""How long a run took and on what: said in the reports, but no output of the pipeline, so that equal runs stay equal."""

import json
import platform
import subprocess
import time
from pathlib import Path

import torch

FOLDER = Path("data/scratch/timing")


def record(task: str, name: str, start: float, speed: dict) -> None:
    """Write data/scratch/timing/<task>-<run>.json; start is time.monotonic() when this process began to train.

    speed: what Speed.facts says at the end.
    """
    asked = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    facts = {
        "seconds": round(time.monotonic() - start, 1),
        "machine": gpu or f"{platform.machine()}, {torch.get_num_threads()} threads",
        "revision": asked.stdout.strip() if asked.returncode == 0 else None,
        **speed,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{task}-{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
