"""A scale as Slurm jobs, each after the one before: what runs share, an array of runs (and of those from them), the reports."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.machine.cards import card
from raretokens.machine.settings import Cluster
from raretokens.paths import MACHINE, SCRATCH
from raretokens.pipeline.groups import SHARED, lines
from raretokens.pipeline.jobs import training
from raretokens.planning import data, memory
from raretokens.planning.plan import plan
from raretokens.planning.vocabulary import text
from raretokens.tasks.parameters import Parameters

FOLDER = SCRATCH / "cluster"  # lists of targets, and what the jobs print
WARNING = 120  # seconds before the time is over: the job goes back into the queue
MARGIN, SPARE = 1.25, 2.0  # of memory, and GB for DVC
SLOWER, OTHERS = 1.5, 1.0  # of hours, and those of probes, translations and scores
SMALL = 8.0  # GB for the reports
WORKERS = 2  # of each GPU, beside the process that trains on it


@dataclass(frozen=True)
class Job:
    """name: of the list of targets, a line for each task; resources in GB and hours, None: Slurm's default."""

    name: str
    targets: list[str]
    cpus: int
    memory: float | None
    hours: float | None
    gpus: int = 0
    nodes: int = 1
    array: str = ""
    flags: list[str] = field(default_factory=list)  # of dvc repro


def jobs(parameters: Parameters, asked: Cluster) -> list[Job]:
    """The jobs of a scale, in their order. Raises UserError where a plan is needed and cannot be made."""
    gigabytes, hours = _largest(parameters, asked)
    runs = {"runs": lines(parameters), "continued": lines(parameters, continued=True)}
    before = list(data.needs(parameters))
    shared = SPARE + MARGIN * max(_known(need.memory, 0.0) for need in before) / 1e9
    cpus = asked.cpus or max(asked.gpus, 1) * (parameters.threads + WORKERS * bool(asked.gpus))
    most = f"%{asked.at_once}" if asked.at_once else ""
    return [
        Job("shared", [" ".join(SHARED)], cpus, asked.memory or shared, None),
        *(
            Job(name, targets, cpus, gigabytes, hours, asked.gpus, asked.nodes, f"1-{len(targets)}{most}", ["-s"])
            for name, targets in runs.items()
            if targets
        ),
        Job("reports", [""], 1, min(asked.memory or SMALL, SMALL), None),
    ]


def _largest(parameters: Parameters, asked: Cluster) -> tuple[float | None, float | None]:
    """GB of a node and hours that will do for every run. Hours of a CPU are not known."""
    if asked.memory and (asked.hours or not asked.gpus):
        return asked.memory, asked.hours
    processes, every = max(asked.gpus, 1) * asked.nodes, list(parameters.every_run())
    try:
        texts = [text(parameters, run.tokens) for run in every]
    except UserError as error:
        raise UserError(f"{MACHINE}: cluster.memory: must be said before there is a plan ({error})") from None
    device = "cuda" if asked.gpus else "cpu"
    planned = [
        plan(training(parameters, run), known, device, processes) for run, known in zip(every, texts, strict=True)
    ]
    needed = max(_known(memory.total(memory.on_host(one.step)), 0.0) for one in planned) * max(asked.gpus, 1)
    hours = None
    if asked.gpus:
        hours = OTHERS + SLOWER * max(one.hours(card(asked.gpu).flops, processes) for one in planned)
    return asked.memory or SPARE + MARGIN * needed / 1e9, asked.hours or hours


def _known(value: float, otherwise: float) -> float:
    return value if value == value else otherwise


def commands(jobs: list[Job], asked: Cluster, root: Path) -> Iterator[list[str]]:
    """sbatch for each job; `{after}` stands for the number of the job before."""
    for number, job in enumerate(jobs):
        output = FOLDER / f"{job.name}-{'%A_%a' if job.array else '%j'}.log"
        yield [
            "sbatch", "--parsable", "--requeue", f"--signal=B:USR1@{WARNING}", "--open-mode=append", f"--output={output}",
            f"--job-name=raretokens-{job.name}", f"--nodes={job.nodes}", "--ntasks-per-node=1", f"--cpus-per-task={job.cpus}",
            *_said("partition", asked.partition),
            *_said("mem", job.memory and f"{round(1000 * job.memory)}M"),
            *_said("time", job.hours and max(round(60 * job.hours), 2 + WARNING // 60)),
            *_said("gpus-per-node", job.gpus), *_said("array", job.array),
            *(["--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"] if number else []),
            *asked.options, str(root / "stages/task"), str(FOLDER / job.name), str(asked.retries), asked.setup or "true",
            *job.flags,
        ]  # fmt: skip


def _said(option: str, value: object) -> list[str]:
    return [f"--{option}={value}"] if value else []


def submit(jobs: list[Job], asked: Cluster, root: Path) -> list[str]:
    """Slurm's numbers of the jobs. Raises UserError with what sbatch says; jobs before it are taken back."""
    for job in jobs:
        write_text(FOLDER / job.name, "".join(f"{line}\n" for line in job.targets))
    numbers: list[str] = []
    for command in commands(jobs, asked, root):
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
