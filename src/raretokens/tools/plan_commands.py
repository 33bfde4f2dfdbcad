"""Commands before training: requirements of runs (plan), a trial at full size (check), rare share by alpha (alpha)."""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import paths, tasks
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.objectives.rarity import SENSIBLE, USUAL, rare_share, threshold_for
from raretokens.objectives.registry import declared
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import train_job
from raretokens.pipeline.machine import precision
from raretokens.pipeline.machine.cards import card
from raretokens.pipeline.machine.settings import device as own_device
from raretokens.pipeline.planning import data, refusal, table, trial
from raretokens.pipeline.planning.data import text
from raretokens.pipeline.planning.plan import Planned, plan
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from raretokens.tools.cli import argument, command, number, output_file
from raretokens.training.config import TrainJob

CPU_GB = 16.0
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the types that are rare


@command(
    argument("runs", nargs="*", metavar="RUN", help="such as gpt2m-agg or lm/gpt2m-agg; default: all"),
    argument("--gpu", help="name of a GPU; default: the one that torch sees, else h200"),
    argument("--gpus", type=number(int), default=1, help="GPUs that share a run; default: 1"),
    argument("--utilisation", type=number(float),
             help="share of the peak that is used; default: the time is estimated from counted operations"),
    argument("--csv", type=output_file, help="write the plan to this file, - for standard output"),
    argument("--check", action="store_true", help="exit 1, a line each, if a run does not fit the GPU named by "
             "--gpu, else this machine"),
)  # fmt: skip
def show_plan(arguments: argparse.Namespace) -> None:
    parameters = load()
    jobs = _select_jobs(parameters, arguments.runs)
    if arguments.check:
        return _check(parameters, jobs, arguments)
    chosen = card(arguments.gpu)
    planned = [_plan(parameters, job, "cuda", arguments.gpus) for job in jobs]
    rows = [table.row(one, chosen, arguments.utilisation) for one in planned]
    if str(arguments.csv) == "-":
        return print(table.to_csv(rows), end="")
    if arguments.csv:
        return write_text(arguments.csv, table.to_csv(rows))
    if not arguments.runs:
        table.show_data([*data.needs(parameters)])
    table.show(rows, planned, chosen, arguments.utilisation)
    for line in filter(None, map(describe_rare_share, jobs)):
        print(line)
    return None


def _select_jobs(parameters: Parameters, names: list[str]) -> list[TrainJob]:
    """Return the trainings of the runs of the given names (`gpt2m-agg` or `lm/gpt2m-agg`), or of all runs without names.

    Raises:
        UserError: a name is unknown.
    """
    jobs = [train_job(parameters, run) for run in parameters.every_run()]
    names_of = [{job.run.name, f"{job.run.task}/{job.run.name}"} for job in jobs]
    for name in names:
        if not any(name in known for known in names_of):
            known = ", ".join(job.run.name for job in jobs)
            raise UserError(f"no run named {name!r}; the run sheet has {known}")
    return [job for job, known in zip(jobs, names_of, strict=True) if not names or known & {*names}]


def _plan(parameters: Parameters, job: TrainJob, device: str, processes: int = 1) -> Planned:
    return plan(job, text(parameters, job.run.tokens), device, processes)


def _check(parameters: Parameters, jobs: list[TrainJob], arguments: argparse.Namespace) -> None:
    """Raise UserError with a line for each shortfall."""
    device, chosen = ("cuda", card(arguments.gpu)) if arguments.gpu else (own_device(), None)
    planned = [_plan(parameters, job, device, arguments.gpus) for job in jobs]
    shortfalls = []
    for one in planned:
        free = refusal.available(one.run)
        if chosen:  # a chosen GPU is of another machine, so only this machine's disk space counts
            free = replace(free, host=math.inf, device=chosen.memory)
        shortfalls += refusal.shortfalls(one, free)
    shortfalls += refusal.shared_shortfalls(planned, refusal.available())
    if not arguments.runs and not chosen:
        shortfalls += refusal.data_shortfalls(data.needs(parameters), refusal.available())
    if shortfalls:
        raise UserError("\n".join(shortfalls))
    print(f"{len(jobs)} runs fit")
    if not chosen and (line := precision.summary(job.training.precision for job in jobs)):
        print(line)


@command(
    argument("runs", nargs="*", metavar="RUN", help="default: all"),
    argument("--tokens", type=number(int), help="tokens of a training step, fewer for a CPU; model and "
             "vocabulary stay full; default: those of the run"),
    argument("--memory", type=number(float), default=CPU_GB,
             help=f"GB that a CPU may use; default: {CPU_GB:g}"),
    argument("--csv", type=output_file, help="write the rows to this file"),
)  # fmt: skip
def try_runs(arguments: argparse.Namespace) -> None:
    parameters = load()
    device, rows, failed = own_device(), [], []
    for job in _select_jobs(parameters, arguments.runs):
        planned = trial.shrunk(_plan(parameters, job, device), arguments.tokens)
        name, need = planned.name, planned.device_bytes
        free = refusal.available()
        limit = free.device or min(arguments.memory * 1e9, free.host)
        if need > limit:
            print(f"{name}  skipped: needs about {need / 1e9:.1f} GB, {limit / 1e9:.1f} GB are free", flush=True)
            continue
        try:
            measured = trial.attempt(Path(parameters.root).resolve(), parameters.threads, planned)
        except UserError as error:
            failed.append(str(error))
            print(f"failed: {error}", flush=True)
            continue
        rows.append(measured)
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if arguments.csv:
            write_text(arguments.csv, table.to_csv(rows))
    if failed:
        raise UserError(f"{len(failed)} of {len(failed) + len(rows)} runs failed")


@command(
    argument("--share", type=float, default=USUAL, help=f"share of the types wanted; default: {USUAL:g}"),
    argument("runs", nargs="*", metavar="RUN", help="default: the first run of each kind of text and size"),
)  # fmt: skip
def show_alpha(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.share < 1:
        raise UserError(f"--share: {arguments.share:g} is not allowed: should lie between 0 and 1")
    console, jobs = Console(width=110, highlight=False), _select_jobs(load(), arguments.runs)
    if not arguments.runs:
        kinds: dict[tuple[object, ...], TrainJob] = {}
        for job in jobs:
            kinds.setdefault((job.run.task, job.run.tokens, job.run.model, job.run.reverse), job)
        jobs = [*kinds.values()]
    encoded = [job for job in jobs if (paths.tokens(job.run.tokens) / VOCABULARY).exists()]
    for job in encoded:
        counts, steps = _target_counts(job)
        run, size = job.run, f"{job.training.tokens_per_step:,} tokens"
        title = f"{run.tokens}, steps of {size} ({run.task}, {run.model})"
        printed = Table("alpha x alpha_scale", "rare types", "rare target tokens", box=SIMPLE_HEAD, title=title)
        rows: dict[tuple[str, ...], str | None] = {}  # several shares may have the same threshold
        for share in sorted({*SHARES, arguments.share}):
            threshold = threshold_for(share, counts, steps, len(SPECIALS))
            types, tokens = rare_share(counts, steps, threshold, len(SPECIALS))
            row = f"{threshold:.3g}", f"{types:.1%}", f"{tokens:.2%}"
            rows[row] = "bold" if share == arguments.share else rows.get(row)
        for row, style in rows.items():
            printed.add_row(*row, style=style)
        console.print(printed)
    names = list(dict.fromkeys(job.run.tokens for job in jobs if job not in encoded))
    line = f"no tokens yet of {', '.join(names)}; dvc repro {' '.join(f'encode@{name}' for name in names)}"
    if not encoded:
        raise UserError(line)
    if names:
        print(line, file=sys.stderr)


def describe_rare_share(job: TrainJob) -> str:
    """Describe in a line how many types and target tokens alpha makes rare.

    Empty if the objective has no alpha, or its text is not tokenized yet.
    """
    options = declared(job.run.objective).defaults | job.run.options
    if "alpha_scale" not in options or not (paths.tokens(job.run.tokens) / VOCABULARY).exists():
        return ""
    types, tokens = rare_share(*_target_counts(job), options["alpha"] * options["alpha_scale"], len(SPECIALS))
    alpha = f"{job.run.task}/{job.run.name}: alpha {options['alpha']:g} x {options['alpha_scale']:g}"
    low, high = SENSIBLE
    hint = "" if low <= types <= high else "; python -m raretokens alpha"
    return f"{alpha} makes {types:.1%} of the types rare, {tokens:.2%} of the target tokens{hint}"


def _target_counts(job: TrainJob) -> tuple[np.ndarray, int]:
    """Return the target counts of the types that occur in text, and the training steps of an epoch."""
    folder = paths.tokens(job.run.tokens)
    vocabulary = Vocabulary.read(folder / VOCABULARY, job.run.reverse)
    batches, _ = tasks.load(job.run.task).training_data(job, folder)
    return vocabulary.target_counts[: vocabulary.types], batches.steps_per_epoch
