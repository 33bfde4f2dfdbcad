"""Everything that is measured on a card, in three calls of nine minutes at most, what matters most first.

    python benchmarks/card.py 1|2|3 FOLDER

1: every objective in bfloat16 beside the CPU, the loss alone; 2: utilisation at 24 x 1024 beside a plain loop, steps of AGG
beside likelihood; 3: decoding, other shapes and sizes. Rows go to CSV files of FOLDER, some kilobytes, as they are measured: what
the time does not allow is left out, and what fails leaves its last words in FOLDER/failed.txt. Nothing is downloaded; torch 2.11
or newer.
"""

import subprocess
import sys
import time
from pathlib import Path

SECONDS = 530.0  # of a call
HERE = Path(__file__).resolve().parent
CALLS: dict[str, list[tuple[str, list[str]]]] = {  # script, arguments
    "1": [
        ("correctness", []),
        ("loss", ["--shapes", "8192x44256x1024,8192x44256x512,8192x267736x1024"]),
    ],
    "2": [
        ("throughput", ["--sizes", "paper/lm/gpt2m", "--methods", "plain,mle,agg", "--updates", "10", "--rounds", "1"]),
        ("step", ["--sizes", "paper/lm/gpt2m", "--objectives", "mle,agg,agps,cosreg", "--rounds", "5"]),
        ("throughput", ["--sizes", "paper/lm/gpt2m", "--methods", "plain-compiled,mle-compiled", "--updates", "10"]),
    ],
    "3": [
        ("decoding", ["--sizes", "base"]),
        ("step", ["--sizes", "paper/nmt/base", "--objectives", "mle,agg,agps,frage", "--rounds", "5"]),
        ("loss", ["--shapes", "8192x8192x1024,32768x44256x1024"]),
        ("throughput", ["--sizes", "paper/nmt/base", "--methods", "plain,mle,agg", "--updates", "10", "--rounds", "1"]),
    ],
}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in CALLS:
        sys.exit(__doc__)
    folder, end, failed = Path(sys.argv[2]), time.monotonic() + SECONDS, []
    folder.mkdir(parents=True, exist_ok=True)
    for script, arguments in CALLS[sys.argv[1]]:
        device = [] if script == "decoding" else ["--device", "cuda"]
        command = [sys.executable, str(HERE / f"{script}.py"), *device, *arguments]
        command += ["--out", str(folder / f"{script}-cuda.csv")]
        why = attempted(command, end - time.monotonic())
        if why:
            failed.append(f"{script} {' '.join(arguments)}: {why}\n")
            (folder / "failed.txt").write_text("".join(failed))
            print(failed[-1], flush=True)
    sys.exit(bool(failed))


def attempted(command: list[str], seconds: float) -> str:
    """Why a command did not do all; empty where it did."""
    if seconds <= 0:
        return "no time was left"
    try:
        done = subprocess.run(command, timeout=seconds, stderr=subprocess.PIPE, text=True, check=False)
    except subprocess.TimeoutExpired:
        return "the time was over; rows before are kept"
    return "" if done.returncode == 0 else done.stderr[-3000:] or f"exit status {done.returncode}"


if __name__ == "__main__":
    main()
