"""Everything that is measured on a card, in three calls of nine minutes at most, what matters most first.

    python benchmarks/card.py 1|2|3|all FOLDER [--rounds 3] [--parts loss,steps]
    python benchmarks/card.py all FOLDER --device cpu --tiny        # small models on a CPU: whether every part runs

1: the ceilings of the card, every objective in bfloat16 beside the CPU, a profile of one step of GPT-2 medium with AGG,
synchronisations, attention kernels, saves; 2: the loss beside those of torch, Liger and CCE, decoding; 3: steps of the paper
scale's models, resume.

A machine needs torch 2.11 or newer with numpy. Training steps also need accelerate, safetensors, psutil and PyYAML. Where
pydantic is missing, a stand-in takes its place. Nothing is installed or downloaded. Each part runs in a process of its own.
Rows are added to FOLDER/card-<device>.csv as they are measured. An error is a row, and stops nothing else.
"""

import argparse
import csv
import importlib.util
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 530.0  # of a call
COLUMNS = ["part", "case", "quantity", "value", "unit", "note"]
# As stages/run sets them: waiting threads that spin would count as work.
QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


def prepare_path() -> None:
    """Put the code of this repository on the path, and stand-ins of missing packages at its end."""
    for folder in (HERE, HERE.parent / "src"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if importlib.util.find_spec("pydantic") is None or importlib.util.find_spec("pydantic_core") is None:
        sys.path.append(str(HERE / "standins"))


class Table:
    """A CSV file to which rows are added one by one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *values: object) -> None:
        is_new = not self.path.exists()
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(COLUMNS)
            writer.writerow(values)
            file.flush()
            os.fsync(file.fileno())
        print(*values, sep=" | ", flush=True)


def run_part(name: str, path: Path, device: str, is_tiny: bool, rounds: int) -> None:
    """Measure a part in this process. Exits with 1 after an error that no case of the part has caught."""
    prepare_path()
    table = Table(path)
    try:
        import card_parts

        setting = card_parts.Setting(device, is_tiny, rounds)
        for row in getattr(card_parts, name)(setting):
            table.add(name, *row)
    except BaseException as error:
        traceback.print_exc()
        table.add(name, "", "error", "", "", f"{type(error).__name__}: {error}"[:500])
        sys.exit(1)


def measured(name: str, path: Path, arguments: argparse.Namespace, seconds: float) -> None:
    """Run a part in a process of its own, for so many seconds at most. What ends the process early is a row."""
    table = Table(path)
    if seconds <= 0:
        return table.add(name, "", "error", "", "", "no time was left")
    # A process of a card starts anew, because CUDA does not survive a fork; on a CPU a fork keeps the imports.
    context = multiprocessing.get_context("fork" if arguments.device == "cpu" else "spawn")
    process = context.Process(target=run_part, args=(name, path, arguments.device, arguments.tiny, arguments.rounds))
    begun = time.monotonic()
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        table.add(name, "", "error", "", "", f"the time was over after {seconds:.0f} s; the rows before are kept")
    elif process.exitcode < 0:
        table.add(name, "", "error", "", "", f"killed by signal {-process.exitcode}; out of memory?")
    return table.add(name, "", "part took", f"{time.monotonic() - begun:.1f}", "s", "")


def main() -> None:
    prepare_path()
    os.environ.update(QUIET)
    arguments = parsed()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    import torch  # before the forks on a CPU; this process itself never uses a GPU

    path = arguments.folder / f"card-{arguments.device}.csv"
    versions = f"torch {torch.__version__}, Python {sys.version.split()[0]}, CUDA {torch.version.cuda}"
    Table(path).add("call", arguments.call, "started", time.strftime("%Y-%m-%dT%H:%M:%S"), "", versions)
    if arguments.device == "cpu":
        import card_parts  # noqa: F401
    end = time.monotonic() + arguments.seconds
    for name in arguments.parts:
        measured(name, path, arguments, end - time.monotonic())


CALLS = {
    "1": ["ceilings", "correctness", "profile", "synchronisations", "attention", "save"],
    "2": ["loss", "decoding"],
    "3": ["steps", "resume"],
}
CALLS["all"] = [name for names in CALLS.values() for name in names]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", choices=list(CALLS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models and shapes")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of the call; default: {SECONDS:g}")
    parser.add_argument("--parts", type=lambda text: text.split(","), help="of the call; default: all")
    arguments = parser.parse_args()
    arguments.parts = arguments.parts or CALLS[arguments.call]
    if unknown := sorted({*arguments.parts} - {*CALLS["all"]}):
        parser.error(f"--parts: {unknown[0]!r} is unknown; allowed: {', '.join(CALLS['all'])}")
    return arguments


if __name__ == "__main__":
    main()
