"""Entry point that dvc.yaml calls to run one stage: python -m reproduction.pipeline STAGE [NAME ...]."""

import argparse
import inspect
import os
import resource

from raretokens.errors import exit_on_error
from reproduction.pipeline import stages

NAMES = [name for name, function in vars(stages).items() if inspect.isfunction(function) and
         function.__module__ == stages.__name__]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="stages/run THREADS", description="Run one stage, from the folder of a scale."
    )
    commands = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name in NAMES:
        function = getattr(stages, name)
        text = inspect.getdoc(function)
        one = commands.add_parser(name, help=text, description=text)
        for argument in inspect.signature(function).parameters:
            one.add_argument(argument)
    arguments = vars(parser.parse_args())
    stage = arguments.pop("stage")
    try:
        with exit_on_error("dvc repro makes what this stage needs"):
            getattr(stages, stage)(**arguments)
    finally:
        _record_time(stage)


def _record_time(stage: str) -> None:
    """Append the CPU seconds of this process and its children to the file that RARETOKENS_STAGE_TIMES names, if set."""
    if file := os.environ.get("RARETOKENS_STAGE_TIMES"):
        usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        with open(file, "a", encoding="utf-8") as times:
            times.write(f"{stage}\t{seconds:.2f}\n")


if __name__ == "__main__":
    main()
