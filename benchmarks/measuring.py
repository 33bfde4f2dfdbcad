"""What benchmarks of models measure with: clock, peak memory, processes of their own."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from records import memory

from raretokens.errors import UserError

# As stages/run sets them: waiting threads that spin would count as work.
QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
# The C library gives every block above 64 KB back at once: else memory that an earlier pass left behind hides what a pass takes.
BARE = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def parser(text: str | None, rounds: int) -> argparse.ArgumentParser:
    """What every script here can be told; --one is how `apart` calls it."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--one", help=argparse.SUPPRESS)
    made.add_argument("--device", choices=("cpu", "cuda"), default=devices()[0])
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--out", type=Path, help="a CSV file: rows that are not measured now stay in it")
    return made


def guarded(main: Callable[[], None]) -> None:
    """Run a script; a user's mistake is printed as it is and exits 1."""
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")


def devices() -> list[str]:
    """The devices at hand, the fastest first."""
    return ["cuda", "cpu"] if torch.cuda.is_available() else ["cpu"]


def machine(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {torch.get_num_threads()} threads"


def clock(device: str) -> float:
    """Seconds: of the device when its work is done, or of the processor (all threads), which other work disturbs least."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def reset_peak(device: str) -> int:
    """Bytes in use now; `peak_bytes` is from here on."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def peak_bytes(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else memory("VmHWM")


def apart(script: str, *task: object, bare: bool = False) -> dict:
    """What `script --one TASK` prints, from a process of its own; {"error": why} where it fails."""
    environment = {**os.environ, **QUIET, **(BARE if bare else {})}
    command = [sys.executable, script, "--one", json.dumps(task)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode < 0:
        return {"error": f"killed by signal {-done.returncode}; out of memory?"}
    if done.returncode:
        return {"error": (done.stderr.strip() or "no reason given").split("\n")[-1][:80]}
    return json.loads(done.stdout.strip().split("\n")[-1])
