"""Parallel execution of a scale: its DVC targets, selections of runs, and a chain of Slurm jobs.

The Slurm jobs are the shared stages, arrays of runs, arrays of continued runs, and the reports. The runs of an array are
similarly long.
"""

import math
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raretokens.errors import UserError
from raretokens.files import write_text
from reproduction.papers.declarations import Declarations
from reproduction.papers.task_scores import AllScores
from reproduction.papers.verdicts import comparison_of
from reproduction.paths import MACHINE, SCRATCH
from reproduction.pipeline.jobs import jobs_of_run, run_sheet, train_job
from reproduction.pipeline.settings import Cluster, card
from reproduction.tasks.parameters import Parameters

SHARED_STAGES = ("jobs", "prepare", "encode", "align", "baseline", "similarity")
FOLDER = SCRATCH / "cluster"  # lists of targets, and output of the jobs
WARNING = 120  # seconds before the time limit at which a job is requeued
MARGIN, SPARE = 1.25, 2.0  # factor on the planned memory; GB of memory for DVC
SLOWER, OTHERS = 3.0, 1.0  # factor on the planned training hours; hours for predictions, translations and scores
SMALL, SHARED = 8.0, 16.0  # GB of memory for the reports, and for the shared stages; the alignment of the paper scale takes 12
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
    scores, declarations = AllScores(run_sheet(parameters), folder), declarations.of_scale(parameters.scale)
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
    step: int  # a job waits for the jobs of the step before
    gpus: int = 0  # per node
    nodes: int = 1
    array: str = ""  # value of sbatch --array; empty: a single job


@dataclass(frozen=True)
class RunNeed:
    """Needs of a Slurm task that makes a run."""

    targets: str
    memory: float | None  # GB per node
    hours: float | None  # None: unknown


def slurm_jobs(parameters: Parameters, settings: Cluster) -> list[SlurmJob]:
    """Return the Slurm jobs of a scale in order. Raises UserError if a plan is needed and cannot be made."""
    runs, continued = (_needs(parameters, settings, continued) for continued in (False, True))
    cpus = settings.cpus or max(settings.gpus, 1) * (parameters.threads + WORKERS * bool(settings.gpus))
    return [
        SlurmJob("shared", [" ".join(SHARED_STAGES)], cpus, settings.memory or SHARED, None, step=0),
        *_arrays("runs", runs, settings, cpus, step=1),
        *_arrays("continued", continued, settings, cpus, step=2),
        SlurmJob("reports", [""], 1, min(settings.memory or SMALL, SMALL), None, step=3),
    ]


def _needs(parameters: Parameters, settings: Cluster, continued: bool) -> list[RunNeed]:
    """Return the needs of each run. Hours on a CPU are unknown."""
    targets = run_targets(parameters, continued)
    if settings.memory and (settings.hours or not settings.gpus):
        return [RunNeed(one, settings.memory, settings.hours) for one in targets]
    from reproduction.pipeline.plan import plan, vocabulary_size  # slow to import, and other commands do without

    processes = max(settings.gpus, 1) * settings.nodes
    every = [run for run in parameters.every_run() if bool(run.init_from) == continued]
    try:
        sizes = [vocabulary_size(parameters, run.tokens) for run in every]
    except UserError as error:
        raise UserError(f"{MACHINE}: cluster.memory: required, since there is no plan yet ({error})") from None
    device = "cuda" if settings.gpus else "cpu"
    pairs = zip(every, sizes, strict=True)
    planned = [plan(train_job(parameters, run), size, device, processes) for run, size in pairs]
    known = [one.host_memory for one in planned if not math.isnan(one.host_memory)]
    memory = [max(known, default=0.0) if math.isnan(one.host_memory) else one.host_memory for one in planned]
    hours = [one.hours(card(settings.gpu)) if settings.gpus else None for one in planned]
    return [
        RunNeed(
            one,
            settings.memory or SPARE + MARGIN * needed * max(settings.gpus, 1) / 1e9,
            settings.hours or (None if taken is None else OTHERS + SLOWER * taken),
        )
        for one, needed, taken in zip(targets, memory, hours, strict=True)
    ]


def _arrays(name: str, needs: list[RunNeed], settings: Cluster, cpus: int, step: int) -> Iterator[SlurmJob]:
    """Yield an array of each class of runs, longest first. Each task requests what the largest run of its class needs."""
    classes = size_classes([need.hours or 1.0 for need in needs], settings.at_once or len(needs))
    shares = at_once_shares([[needs[number].hours or 1.0 for number in members] for members in classes], settings.at_once)
    for members, most in zip(classes, shares, strict=True):
        those = [needs[number] for number in members]
        hours = max((need.hours for need in those if need.hours), default=None)
        yield SlurmJob(
            name if len(classes) == 1 else f"{name}-{math.ceil(hours)}h",
            [need.targets for need in those],
            cpus,
            max(need.memory for need in those),
            hours,
            step,
            settings.gpus,
            settings.nodes,
            f"1-{len(those)}" + (f"%{most}" if most else ""),
        )


def size_classes(hours: Sequence[float], limit: int) -> list[list[int]]:
    """Return the numbers of the runs in classes, longest first, where a run has more than half the hours of the longest.

    The last of `limit` classes has all shorter runs too.
    """
    classes = defaultdict(list)
    for number, one in enumerate(hours):
        classes[min(int(math.log2(max(hours) / one)), limit - 1)].append(number)
    return [classes[number] for number in sorted(classes)]


def at_once_shares(hours: list[list[float]], at_once: int | None) -> list[int | None]:
    """Return how many runs of each class run at a time: `at_once` in all, divided in proportion to the classes' hours."""
    if not at_once:
        return [None] * len(hours)
    shares = [1] * len(hours)
    for _ in range(at_once - len(hours)):
        waiting = [number for number, one in enumerate(hours) if shares[number] < len(one)]
        if waiting:
            shares[max(waiting, key=lambda number: sum(hours[number]) / shares[number])] += 1
    return shares


def commands(jobs: list[SlurmJob], settings: Cluster, root: Path) -> Iterator[list[str]]:
    """Yield the sbatch command of each job. `{after}` is a placeholder for the ids of the jobs of the previous step."""
    for job in jobs:
        output = FOLDER / f"{job.name}-{'%A_%a' if job.array else '%j'}.log"
        yield [
            "sbatch", "--parsable", "--requeue", f"--signal=B:USR1@{WARNING}", "--open-mode=append", f"--output={output}",
            f"--job-name=raretokens-{job.name}", f"--nodes={job.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={job.cpus}",
            *_option("partition", settings.partition),
            *_option("mem", job.memory and f"{round(1000 * job.memory)}M"),
            *_option("time", job.hours and max(round(60 * job.hours), 2 + WARNING // 60)),
            *_option("gpus-per-node", job.gpus), *_option("array", job.array),
            *(["--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"] if job.step else []),
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
    for job, command in zip(jobs, commands(jobs, settings, root), strict=True):
        before = max((other.step for other in jobs if other.step < job.step), default=None)
        after = ":".join(number for other, number in zip(jobs, numbers, strict=False) if other.step == before)
        ready = [word.replace("{after}", after) for word in command]
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
