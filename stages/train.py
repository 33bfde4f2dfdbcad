"""train TASK RUN: data/tokens/ -> data/runs/<task>/<run>/ (weights, log, summary, copies of the table on the way)."""

import os
import sys
import time
from pathlib import Path

from raretokens import config
from raretokens.planning import refusal
from raretokens.training import machine, timing
from raretokens.training.launch import launch
from raretokens.training.run import train


def main() -> None:
    task, name = sys.argv[1:]
    start, parameters, settings = time.monotonic(), config.load(), machine.read()
    run = parameters.run(task, name)
    launch(settings.launch)
    refusal.check(parameters, run)
    speed = train(parameters, run, settings, Path("data/tokens") / run.tokens, Path("data/runs") / task / name)
    if os.environ.get("RANK", "0") == "0":
        timing.record(task, name, start, speed)


if __name__ == "__main__":
    config.main(main)
