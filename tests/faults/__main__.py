"""Run the fault-injection tests, and keep a row of each in tests/faults/faults.csv.

    python tests/faults [--only training,corpora] [--rounds 50] [--seed 0]

They take minutes, need Linux, and leave nothing behind. docs/reliability.md says what each of them tries.
"""

import argparse
import csv
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]  # the small worlds of the tests serve here too

import corpora  # noqa: E402
import downloads  # noqa: E402
import parameters  # noqa: E402
import training  # noqa: E402
from tally import KINDS, Tally  # noqa: E402

from raretokens.files import atomic_write  # noqa: E402

ROWS = HERE / "faults.csv"
TESTS = {  # name -> function, usual number of rounds
    **{f"training {name}": (test, 50) for name, test in training.TESTS.items()},
    "downloads": (downloads.downloads, 200),
    "corpora": (corpora.corpora, 100),
    **{f"parameters {name}": (test, 500) for name, test in parameters.TESTS.items()},
}


def keep(tally: Tally) -> None:
    """Write a row into the table of all tests, in place of an older row of the same test."""
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=HERE, capture_output=True, text=True)
    row = {"test": tally.test, "tried": tally.counts.total(), **{kind: tally.counts[kind] for kind in KINDS}}
    row["commit"] = commit.stdout.strip()
    with open(ROWS, encoding="utf-8", newline="") as file:
        rows = {old["test"]: old for old in csv.DictReader(file)} | {tally.test: row}
    with atomic_write(ROWS) as part, open(part, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    print(*(f"{key}: {value}" for key, value in row.items()), sep="  ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"default: all; allowed: names or their first words: {', '.join(TESTS)}")
    parser.add_argument("--rounds", type=int, help="of each kind of trial; default: 50 to 500")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else [*TESTS]
    for name, (test, rounds) in TESTS.items():
        if {name, name.partition(" ")[0]} & {*only}:
            random.seed(arguments.seed)
            tally = Tally(name)
            test(tally, arguments.rounds or rounds)
            keep(tally)


if __name__ == "__main__":
    main()
