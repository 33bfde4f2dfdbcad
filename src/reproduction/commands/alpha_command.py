"""The command that shows which share of types and target tokens each alpha of AGG makes rare."""

import argparse
import sys

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens.cli import argument, command
from raretokens.errors import UserError
from raretokens.objectives.rarity import USUAL, rare_share, threshold_for
from raretokens.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from reproduction import paths, tasks
from reproduction.pipeline.jobs import select_jobs
from reproduction.pipeline.parameters_file import load
from reproduction.training.recipe import TrainJob

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the types that are rare


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
