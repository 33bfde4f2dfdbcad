"""Where the processor time of stages/parallel goes: each stage, and what is DVC, shells and the start of processes.

    python benchmarks/demo.py [FOLDER] [--jobs 2] [--out benchmarks/demo-cpu.csv]

FOLDER is that of a scale, where everything still has to be made: a fresh clone, after `rm -rf reports dvc.lock` (else DVC knows
scores and reports by what made them, and skips these stages). `everything else` is what no stage spent.
"""

import argparse
import csv
import os
import subprocess
from collections import Counter
from pathlib import Path

from records import keep

STAGES = Path(__file__).resolve().parents[1] / "stages"
SPENT = Path("data/scratch/timing/stages.csv")
WORK = ("train", "probe", "translate")  # what a demo is for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    process = subprocess.Popen([STAGES / "parallel", options.jobs], cwd=options.folder)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("stages/parallel failed")
    total, stages, times = usage.ru_utime + usage.ru_stime, Counter[str](), Counter[str]()
    with open(options.folder / SPENT, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            stages[row["stage"]] += float(row["processor_seconds"])
            times[row["stage"]] += 1
    stages["everything else"] = total - stages.total()
    rows = [
        {
            "stage": stage,
            "times": times[stage] or "",
            "processor_seconds": round(seconds, 1),
            "share": f"{seconds / total:.3f}",
        }
        for stage, seconds in stages.most_common()
    ]
    outside = total - sum(stages[stage] for stage in WORK)
    rows.append({"stage": f"outside {', '.join(WORK)}", "times": "", "processor_seconds": round(outside, 1)})
    rows[-1]["share"] = f"{outside / total:.3f}"
    for row in rows:
        print("  ".join(map(str, row.values())))
    if options.out:
        keep(rows, options.out, ("stage",))


if __name__ == "__main__":
    main()
