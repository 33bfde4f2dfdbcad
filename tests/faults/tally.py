"""What a drill counts, and the row that is kept of it."""

import argparse
import csv
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from raretokens.errors import UserError
from raretokens.files import atomic_write

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "tests/faults/faults.csv"
# What came of a trial: the right answer or one clear line; work that was gone; a wrong answer and no word; a program's error.
CORRECT, LOST, SILENT, TRACEBACK = KINDS = ("correct", "lost", "silent", "tracebacks")


class Tally:
    """Trials of one drill by what came of them; each that is not correct is reported at once."""

    def __init__(self, drill: str) -> None:
        self.drill, self.counts = drill, Counter[str]()

    def add(self, kind: str, what: str = "") -> None:
        self.counts[kind] += 1
        if kind != CORRECT:
            print(f"{self.drill}: {kind}: {what}", flush=True)

    def keep(self) -> None:
        """Into the table of all drills, instead of an older row."""
        row = {"drill": self.drill, "tried": self.counts.total(), **{kind: self.counts[kind] for kind in KINDS}}
        row["commit"] = _commit()
        rows = {old["drill"]: old for old in _read()} | {self.drill: row}
        with atomic_write(ROWS) as part, open(part, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())
        print(*(f"{key}: {value}" for key, value in row.items()), sep="  ", flush=True)


def tried(tally: Tally, what: str, start: str | None, trial: Callable[[], str | None]) -> None:
    """Count a trial.

    Args:
        what: description of the trial.
        start: beginning of each line of a message that refuses it; None where refusing it is wrong.
        trial: returns what is wrong, or None.
    """
    try:
        wrong = trial()
    except UserError as error:
        lines = str(error).split("\n")
        if start is None:
            return tally.add(LOST, f"{what}: refused: {error}")
        is_short = all(line.startswith(start) and len(line) < 2000 for line in lines)
        wrong = None if is_short else f"no line of its own: {error}"
    except Exception:
        return tally.add(TRACEBACK, f"{what}: {traceback.format_exc(limit=-2)[:800]}")
    return tally.add(SILENT if wrong else CORRECT, f"{what}: {wrong}")


def parser(text: str, rounds: int) -> argparse.ArgumentParser:
    """The options of every drill."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds, help=f"of each kind of trial; default: {rounds}")
    made.add_argument("--seed", type=int, default=0)
    return made


def use_tests() -> None:
    """The small worlds of the tests serve drills too."""
    sys.path[:0] = [str(ROOT / "tests")]


def _read() -> list[dict]:
    if not ROWS.exists():
        return []
    with open(ROWS, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()
