"""Commands for the pipeline: its stages (stages), the targets of each run (runs), the scale as Slurm jobs (cluster)."""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raretokens import paths
from raretokens.papers.load import load_declarations
from raretokens.pipeline import cluster, trained
from raretokens.pipeline.cluster import SHARED_STAGES, first_seeds, main_runs, run_targets
from raretokens.pipeline.config import load
from raretokens.pipeline.context import root
from raretokens.pipeline.machine import settings
from raretokens.run import Run
from raretokens.tools.cli import argument, command
from raretokens.yaml_files import read_yaml

MAX_FILES = 6  # files per stage; a longer list is replaced by the common folder
HEADER = ("stage", "how many", "reads", "writes")


@command(
    argument("--shared", action="store_true", help="print what the runs share instead"),
    argument("--continued", action="store_true", help="print the runs that start from others instead"),
    argument("--main", action="store_true", help="only runs that the main conclusions rest on (main.csv), every seed"),
    argument("--one-seed", action="store_true", help="only the first seed of each"),
    argument("--hours", action="store_true", help="print the training time instead, as far as trained.csv has it"),
)  # fmt: skip
def show_runs(arguments: argparse.Namespace) -> None:
    if arguments.shared:
        print(*SHARED_STAGES)
        return
    parameters, scores = load(), paths.REPORTS / "runs"
    selected = {(run.task, run.name) for run in parameters.every_run()}
    if arguments.main:
        selected &= main_runs(parameters, load_declarations(root() / paths.PRINTED), scores)
    if arguments.one_seed:
        selected &= first_seeds(parameters, scores)
    if arguments.hours:
        print(_hours([run for run in parameters.every_run() if (run.task, run.name) in selected]))
        return
    for line in run_targets(parameters, arguments.continued, selected):
        print(line)


def _hours(runs: list[Run]) -> str:
    known = [hours for hours in trained.hours(runs) if hours is not None]
    unknown = f"; the time of {len(runs) - len(known)} is not known" if len(known) < len(runs) else ""
    return f"{len(runs)} runs, {sum(known):.1f} hours one after another{unknown}"


@command(argument("--print", action="store_true", help="only show what would be submitted"))
def submit(arguments: argparse.Namespace) -> None:
    parameters, own = load(), settings.read().cluster
    root, jobs = Path(parameters.root).resolve(), cluster.jobs(parameters, own)
    if arguments.print:
        print("\n".join(map(shlex.join, cluster.commands(jobs, own, root))))
        return
    numbers = cluster.submit(jobs, own, root)
    for job, number in zip(jobs, numbers, strict=True):
        print(f"{number}  {job.name}" + f", {len(job.targets)} tasks" * bool(job.array))
    print(f"watch   squeue -r -j {','.join(numbers)}; tail -f {cluster.FOLDER}/*.log")
    print(f"cancel  scancel {' '.join(numbers)}; a scale that is submitted again continues")
    print("Let no other DVC command run here until they have ended.")


def show_stages(_: argparse.Namespace) -> None:
    load()
    lines = [HEADER, *list_stages(read_yaml(Path("dvc.yaml"))["stages"], read_yaml(paths.PARAMETERS))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def list_stages(declared: dict[str, Any], parameters: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield name, number of runs, inputs and outputs of the stages that have runs at this scale, including continued runs."""
    for name, stage in declared.items():
        if name.endswith("-continued"):
            continue
        each = _foreach_keys(stage["foreach"], parameters) if "foreach" in stage else [""]
        each = [*each, *_foreach_keys(declared.get(f"{name}-continued", {}).get("foreach", ""), parameters)]
        if each:
            body = stage.get("do", stage)
            reads = [path for path in body.get("deps", []) if not path.startswith(("data/jobs/", "${root}"))]
            writes = [*body.get("outs", []), *body.get("metrics", [])]
            yield name, str(len(each)), _summarize(reads), _summarize(writes)


def _foreach_keys(reference: str, parameters: dict[str, Any]) -> Any:
    """Return the values that `foreach: ${runs.lm}` iterates over. Empty if this scale has no such key."""
    values: Any = parameters
    for key in reference.removeprefix("${").removesuffix("}").split("."):
        values = (values or {}).get(key)
    return values or []


def _summarize(files: list[Any]) -> str:
    """Return folders and files without the names of runs, or their common folder if there are many."""
    plain = (path if isinstance(path, str) else next(iter(path)) for path in files)
    folders = dict.fromkeys(re.sub(r"/?\$\{(key|item[.\w]*)\}.*", "", path) or "own files" for path in plain)
    return ", ".join(folders) if len(folders) < MAX_FILES else os.path.commonpath(folders)
