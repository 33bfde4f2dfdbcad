"""Parallel execution of a scale: its DVC targets, selections of runs, and a chain of Slurm jobs.

The Slurm jobs are the shared stages, an array of runs, an array of continued runs, and the reports.
"""

import math
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from raretokens.errors import UserError
from raretokens.evidence.scores import AllScores
from raretokens.evidence.verdict import comparison_of
from raretokens.files import write_text
from raretokens.papers.declarations import Declarations
from raretokens.paths import MACHINE, SCRATCH
from raretokens.pipeline.jobs import jobs_of_run, run_sheet, train_job
from raretokens.pipeline.machine.cards import card
from raretokens.pipeline.machine.settings import Cluster
from raretokens.tasks.parameters import Parameters

SHARED_STAGES = ("jobs", "prepare", "encode", "align", "baseline", "similarity")
FOLDER = SCRATCH / "cluster"  # lists of targets, and output of the jobs
WARNING = 120  # seconds before the time limit at which a job is requeued
MARGIN, SPARE = 1.25, 2.0  # factor on the planned memory; GB of memory for DVC
SLOWER, OTHERS = 1.5, 1.0  # factor on the planned training hours; hours for predictions, translations and scores
SMALL = 8.0  # GB of memory for the reports
WORKERS = 2  # CPU cores per GPU for the data loader, in addition to the training process


def run_targets(
    parameters: Parameters, continued: bool = False, only: Collection[tuple[str, str]] | None = None
) -> list[str]:
    """Return the DVC targets of each run as one string, in order: train-lm@mle predict-lm@mle score-lm@mle.

    Args:
        continued: select the runs that start from the weights of another run; False selects the other runs.
        only: (task, name) of the selected runs; None: all.
    """
    end = "-continued" if continued else ""
    runs = [run for run in parameters.every_run() if bool(run.init_from) == continued]
    runs = [run for run in runs if only is None or (run.task, run.name) in only]
    return [" ".join(f"{stage}{end}@{run.name}" for stage, _ in jobs_of_run(parameters, run)) for run in runs]


def main_runs(parameters: Parameters, declarations: Declarations, folder: Path) -> set[tuple[str, str]]:
    """Return (task, name) of the runs of the main claims, with all seeds and the runs that they start from.

    A claim with a run that is not on the run sheet is skipped.

    Args:
        folder: folder of the score files.
    """
    scores = AllScores(run_sheet(parameters), folder)
    needed: set[tuple[str, str]] = set()
    for claim in (claim for claim in declarations.claims.values() if claim.main):
        part = scores[claim.task]
        found = comparison_of(claim, part, declarations).runs
        runs = [found[name] for name, side in claim.all_sides.items() if not side.data]
        if None not in runs:
            names = [name for run in runs for name in part.repeats(run)]
            names += filter(None, [part.lines[name].init_from for name in names])
            needed |= {(claim.task, name) for name in names}
    return needed


def first_seeds(parameters: Parameters, folder: Path) -> set[tuple[str, str]]:
    """Return (task, name) of the first seed of each run. `folder` contains the score files."""
    every = AllScores(run_sheet(parameters), folder)
    return {(task, run) for task, scores in every.items() for run in scores.repetitions}


@dataclass(frozen=True)
class SlurmJob:
    """A Slurm job or job array. Resources that are None get Slurm's default."""

    name: str  # also of the file of targets, which has one line for each array task
    targets: list[str]
    cpus: int
    memory: float | None  # GB per node
    hours: float | None
    gpus: int = 0  # per node
    nodes: int = 1
    array: str = ""  # value of sbatch --array; empty: a single job


def jobs(parameters: Parameters, settings: Cluster) -> list[SlurmJob]:
    """Return the Slurm jobs of a scale in order. Raises UserError if a plan is needed and cannot be made."""
    from raretokens.pipeline.planning import data  # slow to import, and other commands do without

    gigabytes, hours = _sufficient(parameters, settings)
    runs = {"runs": run_targets(parameters), "continued": run_targets(parameters, continued=True)}
    shared = SPARE + MARGIN * _largest_known(need.memory for need in data.needs(parameters)) / 1e9
    cpus = settings.cpus or max(settings.gpus, 1) * (parameters.threads + WORKERS * bool(settings.gpus))
    most = f"%{settings.at_once}" if settings.at_once else ""
    return [
        SlurmJob("shared", [" ".join(SHARED_STAGES)], cpus, settings.memory or shared, None),
        *(
            SlurmJob(name, targets, cpus, gigabytes, hours, settings.gpus, settings.nodes, f"1-{len(targets)}{most}")
            for name, targets in runs.items()
            if targets
        ),
        SlurmJob("reports", [""], 1, min(settings.memory or SMALL, SMALL), None),
    ]


def _sufficient(parameters: Parameters, settings: Cluster) -> tuple[float | None, float | None]:
    """Return the memory of a node in GB and the hours that suffice for every run. Hours on a CPU are unknown (None)."""
    if settings.memory and (settings.hours or not settings.gpus):
        return settings.memory, settings.hours
    from raretokens.pipeline.planning import data
    from raretokens.pipeline.planning.plan import plan

    processes, every = max(settings.gpus, 1) * settings.nodes, list(parameters.every_run())
    try:
        texts = [data.text(parameters, run.tokens) for run in every]
    except UserError as error:
        raise UserError(f"{MACHINE}: cluster.memory: required, since there is no plan yet ({error})") from None
    device = "cuda" if settings.gpus else "cpu"
    pairs = zip(every, texts, strict=True)
    planned = [plan(train_job(parameters, run), known, device, processes) for run, known in pairs]
    needed = _largest_known(one.host_bytes for one in planned) * max(settings.gpus, 1)
    hours = None
    if settings.gpus:
        hours = OTHERS + SLOWER * _largest_known(one.hours(card(settings.gpu)) for one in planned)
    return settings.memory or SPARE + MARGIN * needed / 1e9, settings.hours or hours


def _largest_known(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=0.0)


def commands(jobs: list[SlurmJob], settings: Cluster, root: Path) -> Iterator[list[str]]:
    """Yield the sbatch command of each job. `{after}` is a placeholder for the id of the previous job."""
    for number, job in enumerate(jobs):
        output = FOLDER / f"{job.name}-{'%A_%a' if job.array else '%j'}.log"
        yield [
            "sbatch", "--parsable", "--requeue", f"--signal=B:USR1@{WARNING}", "--open-mode=append", f"--output={output}",
            f"--job-name=raretokens-{job.name}", f"--nodes={job.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={job.cpus}",
            *_option("partition", settings.partition),
            *_option("mem", job.memory and f"{round(1000 * job.memory)}M"),
            *_option("time", job.hours and max(round(60 * job.hours), 2 + WARNING // 60)),
            *_option("gpus-per-node", job.gpus), *_option("array", job.array),
            *(["--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"] if number else []),
            *settings.options, str(root / "stages/task"), str(FOLDER / job.name), str(settings.retries), settings.setup or "true",
            *(["-s"] if job.array else []),
        ]  # fmt: skip


def _option(name: str, value: object) -> list[str]:
    return [f"--{name}={value}"] if value else []


def submit(jobs: list[SlurmJob], settings: Cluster, root: Path) -> list[str]:
    """Submit the jobs and return their ids. Raises UserError with the message of sbatch, after cancelling the earlier jobs."""
    for job in jobs:
        write_text(FOLDER / job.name, "".join(f"{line}\n" for line in job.targets))
    numbers: list[str] = []
    for command in commands(jobs, settings, root):
        ready = [word.replace("{after}", numbers[-1] if numbers else "") for word in command]
        try:
            done = subprocess.run(ready, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UserError("sbatch: no such command; stages/cluster needs Slurm, stages/parallel does not") from None
        if done.returncode:
            if numbers:
                subprocess.run(["scancel", *numbers], check=False)
            raise UserError(f"{MACHINE}: cluster: sbatch refused: {' '.join(done.stderr.split())}")
        numbers.append(done.stdout.strip().split(";")[0])
    return numbers
