"""Trial of a run with its full model: the train stage runs two steps and an evaluation on random token ids."""

import csv
import json
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.paths import MACHINE, TIMING, trained
from raretokens.paths import job as job_file
from raretokens.paths import tokens as tokens_folder
from raretokens.pipeline.job_file import job_text
from raretokens.pipeline.planning.data import write_random_text
from raretokens.pipeline.planning.plan import Planned, forward_of
from raretokens.pipeline.short_training import OUTPUT, Version, last_line
from raretokens.tasks import describe
from raretokens.training.config import TrainJob
from raretokens.training.example_batches import SMALLEST_BUCKET

STEPS = 2
SPARE = 4  # length of the random training text, in steps
AT_ONCE = ("start", "popular_types")  # options of objectives that a trial sets to 0


def shrunk(planned: Planned, tokens: int | None) -> Planned:
    """Limit the steps of a run to `tokens` tokens each. Model and vocabulary are unchanged."""
    training = planned.training
    tokens = min(tokens or training.tokens_per_step, training.tokens_per_step)
    if planned.sides == 2:
        tokens = max(tokens, SMALLEST_BUCKET)
    if describe(planned.run.task).kind == "images":
        tokens = max(tokens, training.block)  # an image is not cut
    block = min(training.block, tokens)
    training = training.replaced(tokens_per_step=tokens, block=block)
    job = planned.job.replaced(training=training)
    forward = forward_of(job, planned.text.rows, planned.device)
    return replace(planned, job=job, forward=forward, micro_batch=max(min(planned.micro_batch, tokens), block), snapshots=0.0)


def attempt(root: Path, threads: int, planned: Planned) -> dict[str, Any]:
    """Run the train stage in a separate process and a temporary folder.

    Args:
        root: root of the repository.
        threads: CPU threads of the stage.

    Returns:
        CSV row of the trial. planned_mb is None if the forward pass depends on the values of its tensors.

    Raises:
        UserError: the stage failed; the message is its last line of output.
    """
    run = planned.run
    with tempfile.TemporaryDirectory(prefix="raretokens-") as name:
        folder = Path(name)
        _prepare(folder, planned)
        start = time.monotonic()
        if Version(root).start([str(threads), "train", run.task, run.name], folder).wait():
            last = last_line(folder / OUTPUT) or "the train stage printed nothing"
            raise UserError(f"{planned.name}: {last}")
        seconds = time.monotonic() - start
        (loss_1, loss_2), evaluation = results(folder / trained(run.task, run.name))
        recorded = json.loads((folder / TIMING / f"{run.task}-{run.name}.json").read_text(encoding="utf-8"))
    need = planned.on_device()
    if planned.device == "cuda":
        need.pop("program")  # the measured peak covers tensors only
    planned_bytes = sum(need.values())
    return {
        "run": planned.name,
        "device": planned.device,
        "parameters": planned.parameters,
        "tokens_per_step": planned.training.tokens_per_step,
        "peak_mb": round(recorded["peak_memory_bytes"] / 1e6),
        "planned_mb": None if math.isnan(planned_bytes) else round(planned_bytes / 1e6),
        "loss_1": loss_1,
        "loss_2": loss_2,
        "evaluation": evaluation,
        "seconds": round(seconds, 1),
    }


def _prepare(folder: Path, planned: Planned) -> None:
    """Write the job of this run, machine.yaml, and random token files."""
    run = planned.run
    lengths = {"train": SPARE * planned.training.tokens_per_step, "valid": planned.micro_batch}
    write_random_text(folder / tokens_folder(run.tokens), planned.job, planned.text.rows, lengths)
    write_text(folder / job_file(f"train-{run.task}", run.name), job_text(shortened(planned), {}))
    write_text(folder / MACHINE, machine_text(planned))


def machine_text(planned: Planned) -> str:
    """Return machine.yaml of the trial. It compiles if the run will: with `auto`, two steps alone would not."""
    is_compiled = planned.device == "cuda" and not planned.is_eager
    return f"micro_batch: {planned.micro_batch}\ncompile: {str(is_compiled).lower()}\n"


def shortened(planned: Planned) -> TrainJob:
    """Return the job of the trial: two steps, and an evaluation after the second."""
    training = planned.training.replaced(
        steps=STEPS, warmup=STEPS, validate_every=STEPS, validation_tokens=None, snapshot_every=STEPS
    )
    # With these options, an objective with a delayed `start` acts from the first step, with any vocabulary.
    options = {name: 0 if name in AT_ONCE else value for name, value in planned.run.options.items()}
    return planned.job.replaced(run=planned.run.replaced(options=options, init_from=None), training=training)


def results(folder: Path) -> tuple[list[float], float]:
    """Read the losses of the steps and the NLL of the evaluation. They are finite, since training stops otherwise."""
    with open(folder / "log.tsv", encoding="utf-8", newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file, delimiter="\t")]
    summary = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return losses, summary["kept"]["valid_nll"]
