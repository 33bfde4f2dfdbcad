"""Commands before training: requirements of runs (plan), a trial at full size (check), and what each alpha makes rare (alpha)."""

import argparse
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import csv_files
from raretokens.cli import argument, command, number, output_file
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.literals import literal
from raretokens.objectives.rarity import USUAL, rare_share, threshold_for
from raretokens.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from reproduction import paths, tasks
from reproduction.pipeline import full_size, records
from reproduction.pipeline.jobs import select_jobs
from reproduction.pipeline.parameters_file import load
from reproduction.pipeline.plan import UTILISATION, Planned, Resources, available, fits, plan, vocabulary_size
from reproduction.pipeline.settings import Card, card
from reproduction.pipeline.settings import device as own_device
from reproduction.training.models.shapes import MODELS
from reproduction.training.recipe import TrainJob

SHOWN = {  # heading -> field of a row
    "run": "run", "parameters": "parameters", "tokens": "tokens", "FLOPs": "flops", "hours": "hours",
    "GPU GB": "gpu_gb", "host GB": "host_gb", "disk GB": "disk_gb", "fits": "fits",
}  # fmt: skip
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the types that are rare


@command(
    argument("runs", nargs="*", metavar="RUN", help="such as gpt2m-agg or lm/gpt2m-agg; default: all"),
    argument("--gpu", help="name of a GPU, such as a100; default: this machine"),
    argument("--gpus", type=number(int), default=1, help="GPUs that share a run; default: 1"),
    argument("--utilisation", type=number(float), default=UTILISATION,
             help=f"share of the GPU's peak that training reaches; default: {UTILISATION:g}"),
    argument("--csv", type=output_file, help="write the plan to this file, - for standard output"),
)  # fmt: skip
def show_plan(arguments: argparse.Namespace) -> None:
    parameters = load()
    gpu = card(arguments.gpu) if arguments.gpu or torch.cuda.is_available() else None
    free = Resources(math.inf, available().disk, gpu.memory) if arguments.gpu else available()
    planned = [
        plan(job, vocabulary_size(parameters, job.run.tokens), "cuda" if gpu else "cpu", arguments.gpus)
        for job in select_jobs(parameters, arguments.runs)
    ]
    hours: dict[str, tuple[float, str]] = {}
    if gpu:
        source = f"FLOPs at {arguments.utilisation:.0%} of the peak of {gpu.name}"
        hours = {one.name: (one.hours(gpu, arguments.utilisation), source) for one in planned}
    if not arguments.gpu and arguments.gpus == 1:
        hours |= _recorded() | _measured(planned)
    rows = [_row(one, *hours.get(one.name, (math.nan, "")), free) for one in planned]
    table = csv_files.to_csv(([*map(str, row.values())] for row in rows), [*rows[0]])
    if arguments.csv:
        return print(table, end="") if str(arguments.csv) == "-" else write_text(arguments.csv, table)
    return _show(rows, planned, gpu, free)


def _recorded() -> dict[str, tuple[float, str]]:
    """Return the recorded hours of each trained run of this scale, and where they come from."""
    rows = (row for row in records.trained_table().to_dict("records") if row["hours"])
    return {f"{row['task']}/{row['run']}": (float(row["hours"]), f"training on {row['machine']}") for row in rows}


def _measured(planned: list[Planned]) -> dict[str, tuple[float, str]]:
    """Return the hours by the step times that `check` measured on this machine, in steps of the full size."""
    rows = {row["run"]: row for row in full_size.measured()}
    found = {}
    for one in planned:
        row, size = rows.get(one.name, {}), (str(one.model.parameters), str(one.training.tokens_per_step))
        if (row.get("parameters"), row.get("tokens_per_step")) == size:
            found[one.name] = one.training.steps * float(row["step_seconds"]) / 3600, f"check on {row['machine']}"
    return found


def _row(planned: Planned, hours: float, hours_from: str, free: Resources) -> dict[str, object]:
    """Return a CSV row for a run: memory and disk in GB, FLOPs of the whole training."""
    is_gpu = planned.device == "cuda"
    return {
        "run": planned.name,
        "model": planned.run.model,
        "objective": planned.run.objective,
        "parameters": planned.model.parameters,
        "vocabulary": planned.vocabulary,
        "steps": planned.training.steps,
        "tokens_per_step": planned.training.tokens_per_step,
        "tokens": planned.tokens,
        "flops": f"{planned.flops:.2e}",
        "hours": "unknown" if math.isnan(hours) else f"{hours:.3g}",
        "hours_from": hours_from,
        "processes": planned.processes,
        "micro_batch": planned.micro_batch,
        "gpu_gb": f"{planned.memory / 1e9:.1f}" if is_gpu else "",
        "host_gb": f"{planned.host_memory / 1e9:.1f}",
        "disk_gb": f"{planned.disk / 1e9:.2f}",
        "disk_while_training_gb": f"{planned.disk_while_training / 1e9:.2f}",
        "fits": fits(planned.memory, free.device or 0) if is_gpu else fits(planned.host_memory, free.host),
    }


def _show(rows: list[dict], planned: list[Planned], gpu: Card | None, free: Resources) -> None:
    """Print the table, its totals, and the assumptions of the estimate."""
    table, console = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0)), Console(width=118, highlight=False)  # a pipe has no width
    for heading in SHOWN:
        table.add_column(heading, justify="left" if heading in ("run", "fits") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{row[field]:,}" if isinstance(row[field], int) else str(row[field]) for field in SHOWN.values()))
    console.print(table)
    hours: Counter[str] = Counter()
    for row in rows:
        hours[row["hours_from"]] += 0 if row["hours"] == "unknown" else float(row["hours"])
    for source, total in hours.items():
        count = sum(row["hours_from"] == source for row in rows)
        known = f"{total:,.3g} hours by {source}" if source else "no hours; `check` measures steps, --gpu estimates them"
        console.print(f"{count} runs: {known}")
    for architecture in sorted({one.run.architecture for one in planned} if gpu else ()):
        if remark := literal(MODELS / f"{architecture}.py", "TIME"):
            console.print(f"{architecture}: {remark}.")
    written, passing = sum(one.disk for one in planned), max(one.disk_while_training for one in planned)
    console.print(f"Disk: the runs take {written / 1e9:.1f} GB, and {passing / 1e9:.1f} GB more while the largest trains. DVC's "
                  f"cache holds a copy of each output. {free.disk / 1e9:.1f} GB are free.")  # fmt: skip


@command(
    argument("runs", nargs="*", metavar="RUN", help="default: all"),
    argument("--tokens", type=number(int), help="tokens of a training step, fewer for a CPU; model and "
             "vocabulary stay full; default: those of the run"),
)  # fmt: skip
def try_runs(arguments: argparse.Namespace) -> None:
    parameters = load()
    device, rows, failed = own_device(), 0, 0
    for job in select_jobs(parameters, arguments.runs):
        planned = plan(full_size.shrunk(job, arguments.tokens), vocabulary_size(parameters, job.run.tokens), device)
        free = available().device or available().host
        if fits(planned.memory, free) in ("tight", "no"):
            print(f"{planned.name}  skipped: needs about {planned.memory / 1e9:.1f} GB, {free / 1e9:.1f} GB are free", flush=True)
            continue
        rows += 1
        try:
            row = full_size.attempt(Path(parameters.root).resolve(), parameters.threads, planned)
        except UserError as error:
            failed += 1
            print(f"failed: {error}", flush=True)
            continue
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        full_size.record(row)
    if failed:
        raise UserError(f"{failed} of {rows} runs failed")


@command(
    argument("--share", type=float, default=USUAL, help=f"share of the types wanted; default: {USUAL:g}"),
    argument("runs", nargs="*", metavar="RUN", help="default: the first run of each kind of text and size"),
)  # fmt: skip
def show_alpha(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.share < 1:
        raise UserError(f"--share: {arguments.share:g} is not allowed: should lie between 0 and 1")
    console, jobs = Console(width=110, highlight=False), select_jobs(load(), arguments.runs)
    if not arguments.runs:
        kinds: dict[tuple[object, ...], TrainJob] = {}
        for job in jobs:
            kinds.setdefault((job.run.task, job.run.tokens, job.run.model, job.run.reverse), job)
        jobs = [*kinds.values()]
    encoded = [job for job in jobs if (paths.tokens(job.run.tokens) / VOCABULARY).exists()]
    for job in encoded:
        counts, steps = _target_counts(job)
        run, size = job.run, f"{job.training.tokens_per_step:,} tokens"
        title = f"{run.tokens}, steps of {size} ({run.task}, {run.model}{', target to source' if run.reverse else ''})"
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


def _target_counts(job: TrainJob) -> tuple[np.ndarray, int]:
    """Return the target counts of the types that occur in text, and the training steps of an epoch."""
    folder = paths.tokens(job.run.tokens)
    vocabulary = Vocabulary.read(folder / VOCABULARY, job.run.reverse)
    batches, _ = tasks.load(job.run.task).training_data(job, folder)
    return vocabulary.target_counts[: vocabulary.types], batches.steps_per_epoch
