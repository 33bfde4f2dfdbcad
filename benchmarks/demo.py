"""Processor time of `make demo` by kind of stage; the rest is set-up, DVC, shells and the site.

    python benchmarks/demo.py [FOLDER] [--out benchmarks/demo-cpu.csv]

FOLDER is a fresh clone. `everything else` is the time outside of the stages.
"""

import argparse
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from records import keep

WORK = ("train", "predict", "translate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "stages.tsv")
        environment = os.environ | {"RARETOKENS_STAGE_TIMES": str(file)}
        process = subprocess.Popen(["make", "demo"], cwd=options.folder, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit("make demo failed")
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    total, stages, times = usage.ru_utime + usage.ru_stime, Counter[str](), Counter[str]()
    for stage, seconds in rows:
        stages[stage] += float(seconds)
        times[stage] += 1
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
