"""train TASK RUN: data/tokens/<task>/ -> data/runs/<task>/<run>/ (weights, log, summary)."""

import sys
from pathlib import Path

from raretokens import config
from raretokens.training.run import train


def main() -> None:
    task, name = sys.argv[1:]
    parameters = config.load()
    train(parameters, parameters.run(task, name), Path("data/tokens") / task, Path("data/runs") / task / name)


if __name__ == "__main__":
    config.main(main)
