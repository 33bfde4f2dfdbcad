"""Speed and memory of a training run with glibc's allocator and with jemalloc, early and late, and whether the numbers are equal.

    python benchmarks/allocator.py FOLDER TASK RUN [--updates 400] [--out CSV]

FOLDER is that of a scale whose token files and jobs are there; the run is trained from its start in a folder of its own, once
with each allocator, for so many training steps. Speed is steps by the processor's time, which other work on the machine disturbs
less than the clock. `table` is the md5 of the embedding matrix at the last snapshot before the end. If the two differ, the
allocator changes numbers.
"""

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from records import keep

RUN = Path(__file__).resolve().parents[1] / "stages/run"
KEY = ("run", "allocator")
SHARE = 4  # early is the second such part of the updates (the first compiles), late the last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task")
    parser.add_argument("run")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    environments = {"glibc": {**os.environ, "LD_PRELOAD": ""}, "jemalloc": dict(os.environ)}
    environments["jemalloc"].pop("LD_PRELOAD", None)
    rows = []
    for allocator, environment in environments.items():
        row = trained(options.folder.resolve(), options.task, options.run, options.updates, environment)
        rows.append({"run": f"{options.task}/{options.run}", "allocator": allocator, "updates": options.updates} | row)
        rows[-1]["late_to_glibc"] = f"{row['late'] / rows[0]['late']:.3f}"
        print("  ".join(map(str, rows[-1].values())), flush=True)
    if rows[0]["table"] != rows[1]["table"]:
        print("the two tables are not equal")
    if options.out:
        keep(rows, options.out, KEY)


def trained(folder: Path, task: str, run: str, updates: int, environment: dict[str, str]) -> dict:
    """Updates a processor second early and late, memory in MB at a quarter and at most, md5 of the last table."""
    with tempfile.TemporaryDirectory() as own, open(Path(own) / "said", "w+", encoding="utf-8") as said:
        (Path(own) / "data").mkdir()
        for name in ("jobs", "tokens", "corpus"):
            (Path(own) / "data" / name).symlink_to(folder / "data" / name)
        stage = subprocess.Popen([RUN, "1", "train", task, run], cwd=own, env=environment, stdout=said, stderr=said)
        try:
            seen = list(_course(stage, Path(said.name), updates))
        finally:
            stage.kill()
            stage.wait()
        table = sorted(Path(own).glob("data/scratch/runs/*/table-*.pt"))[-1]
        quarter = updates / SHARE
        return {
            "early": round(_rate(seen, quarter, 2 * quarter), 3),
            "late": round(_rate(seen, updates - quarter, updates), 3),
            "MB_early": next(megabytes for update, _, megabytes in seen if update >= quarter),
            "MB": max(megabytes for *_, megabytes in seen),
            "table": hashlib.md5(table.read_bytes()).hexdigest(),
        }


def _course(stage: subprocess.Popen, said: Path, updates: int):
    """(update, processor seconds, MB) as they are said, until so many updates are done."""
    last = 0
    while last < updates:
        if stage.poll() is not None:
            raise SystemExit(said.read_text())
        found = re.findall(r"step ([\d,]+)/", said.read_text())
        if found and (update := int(found[-1].replace(",", ""))) > last:
            last = update
            yield update, *_spent(stage.pid)
        time.sleep(0.2)


def _spent(pid: int) -> tuple[float, int]:
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    (resident,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(resident) // 1024


def _rate(seen: list[tuple[int, float, int]], first: float, last: float) -> float:
    within = [(update, seconds) for update, seconds, _ in seen if first <= update <= last]
    (begin, before), (end, after) = within[0], within[-1]
    return (end - begin) / (after - before)


if __name__ == "__main__":
    main()
