"""train TASK RUN: data/tokens/ -> data/runs/<task>/<run>/ (weights, log, summary, copies of the table on the way)."""

import os
import sys
import time
from pathlib import Path

from raretokens import config
from raretokens.planning import refusal
from raretokens.training import timing
from raretokens.training.run import train


def main() -> None:
    task, name = sys.argv[1:]
    start, parameters = time.monotonic(), config.load()
    run = parameters.run(task, name)
    refusal.check(parameters, run)
    train(parameters, run, Path("data/tokens") / run.tokens, Path("data/runs") / task / name)
    if os.environ.get("RANK", "0") == "0":
        timing.record(task, name, start)


if __name__ == "__main__":
    config.main(main)
