"""alpha: which part of a text each alpha of AGG makes rare."""

import argparse
from collections.abc import Iterator

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import paths, tasks
from raretokens.errors import UserError
from raretokens.objectives.rarity import SENSIBLE, USUAL, rare_share, threshold_for
from raretokens.objectives.registry import declared
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import training
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.vocabulary import SPECIALS, VOCABULARY, Vocabulary
from raretokens.training.config import TrainJob as Job

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    one = commands.add_parser("alpha", help="alpha of AGG -> share of the types and of the target tokens that are rare")
    one.set_defaults(act=show)
    one.add_argument("--share", type=float, default=USUAL, help=f"share of the types wanted ({USUAL:g})")
    one.add_argument("runs", nargs="*", metavar="RUN", help="default: the first run of each kind of text and size")


def show(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.share < 1:
        raise UserError(f"--share: {arguments.share:g} is not allowed: should lie between 0 and 1")
    parameters, console = load(), Console(width=110, highlight=False)
    for job in _jobs(parameters, arguments.runs):
        counts, updates = _seen(job)
        run, size = job.run, f"{job.training.tokens_per_update:,} tokens"
        title = f"{run.tokens}, updates of {size} ({run.task}, {run.size})"
        table = Table("alpha x alpha_scale", "rare types", "rare target tokens", box=SIMPLE_HEAD, title=title)
        for share in sorted({*SHARES, arguments.share}):
            threshold = threshold_for(share, counts, updates, len(SPECIALS))
            types, tokens = rare_share(counts, updates, threshold, len(SPECIALS))
            style = "bold" if share == arguments.share else None
            alpha = f"{threshold:.3g}" if threshold > 1e-9 else "above 0"
            table.add_row(alpha, f"{types:.1%}", f"{tokens:.2%}", style=style)
        console.print(table)


def shares(job: Job) -> str:
    """What the alpha of a run makes rare, in a line; empty where it has none, or its text is not there yet."""
    options = declared(job.run.objective).defaults | job.run.options
    if "alpha_scale" not in options or not (paths.tokens(job.run.tokens) / VOCABULARY).exists():
        return ""
    threshold = options["alpha"] * options["alpha_scale"]
    types, tokens = rare_share(*_seen(job), threshold, len(SPECIALS))
    alpha = f"{job.run.task}/{job.run.name}: alpha {options['alpha']:g} x {options['alpha_scale']:g}"
    line = f"{alpha} makes {types:.1%} of the types rare"
    low, high = SENSIBLE
    return f"{line}, {tokens:.2%} of the target tokens" + (
        "" if low <= types <= high else "; python -m raretokens alpha"
    )


def _jobs(parameters: Parameters, names: list[str]) -> Iterator[Job]:
    """Those of the runs named, or one for each text, size and direction."""
    seen = set()
    for run in parameters.every_run():
        kind = run.name if names else (run.task, run.tokens, run.size, run.reverse)
        if kind not in seen and (not names or run.name in names):
            seen.add(kind)
            yield training(parameters, run)
    if missing := [name for name in names if name not in seen]:
        raise UserError(f"no run named {missing[0]!r} on the run sheet")


def _seen(job: Job) -> tuple[np.ndarray, int]:
    """Target counts of the types that text can use, and the updates of an epoch."""
    folder = paths.tokens(job.run.tokens)
    if not (folder / VOCABULARY).exists():
        raise UserError(f"{folder}: no such text yet; dvc repro encode@{job.run.tokens}")
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    vocabulary = vocabulary.reversed() if job.run.reverse else vocabulary
    updates, _ = tasks.part(job.run.task, "training").data(job, folder)
    return vocabulary.target_counts[: vocabulary.types], updates.updates_per_epoch
