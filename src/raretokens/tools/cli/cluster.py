"""runs and cluster: the stages of each run, and all of a scale given to Slurm."""

import argparse
import shlex
from pathlib import Path

from raretokens import paths
from raretokens.papers.load import load_declarations
from raretokens.pipeline import cluster, trained
from raretokens.pipeline.config import load
from raretokens.pipeline.context import root
from raretokens.pipeline.machine import settings
from raretokens.pipeline.targets import SHARED_STAGES, first_seeds, main_runs, run_targets
from raretokens.run import Run


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    one = commands.add_parser("runs", help="the DVC targets of each run, a line each")
    one.set_defaults(act=show)
    one.add_argument("--shared", action="store_true", help="what the runs share instead")
    one.add_argument("--continued", action="store_true", help="the runs that start from others instead")
    one.add_argument(
        "--main", action="store_true", help="only those that the main conclusions rest on (main.csv), every seed"
    )
    one.add_argument("--one-seed", action="store_true", help="only the first seed of each")
    one.add_argument("--hours", action="store_true", help="how long they train instead, as far as trained.csv tells")
    one = commands.add_parser("cluster", help="give the scale to Slurm: what runs share, an array of runs, the reports")
    one.set_defaults(act=submit)
    one.add_argument("--print", action="store_true", help="only show what would be submitted")


def show(arguments: argparse.Namespace) -> None:
    if arguments.shared:
        print(*SHARED_STAGES)
        return
    parameters, scores = load(), paths.REPORTS / "runs"
    only = {(run.task, run.name) for run in parameters.every_run()}
    if arguments.main:
        only &= main_runs(parameters, load_declarations(root() / paths.PRINTED), scores)
    if arguments.one_seed:
        only &= first_seeds(parameters, scores)
    if arguments.hours:
        print(_hours([run for run in parameters.every_run() if (run.task, run.name) in only]))
        return
    for line in run_targets(parameters, arguments.continued, only):
        print(line)


def _hours(runs: list[Run]) -> str:
    took = [hours for hours in trained.hours(runs) if hours is not None]
    untold = f"; of {len(runs) - len(took)} the time is not known" if len(took) < len(runs) else ""
    return f"{len(runs)} runs, {sum(took):.1f} hours one after another{untold}"


def submit(arguments: argparse.Namespace) -> None:
    parameters, asked = load(), settings.read().cluster
    root, made = Path(parameters.root).resolve(), cluster.jobs(parameters, asked)
    if arguments.print:
        print("\n".join(map(shlex.join, cluster.commands(made, asked, root))))
        return
    numbers = cluster.submit(made, asked, root)
    for job, number in zip(made, numbers, strict=True):
        print(f"{number}  {job.name}" + f", {len(job.targets)} tasks" * bool(job.array))
    print(f"watch   squeue -r -j {','.join(numbers)}; tail -f {cluster.FOLDER}/*.log")
    print(f"cancel  scancel {' '.join(numbers)}; submitted again, it goes on where it stopped")
    print("Let no other DVC command run here until they have ended.")
