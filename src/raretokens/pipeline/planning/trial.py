"""Trial of a run with its full model: the train stage runs two steps and an evaluation on random token ids."""

import csv
import json
import math
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.paths import MACHINE, TIMING, trained
from raretokens.paths import job as job_file
from raretokens.paths import tokens as tokens_folder
from raretokens.pipeline.job_file import job_text
from raretokens.pipeline.planning.plan import Planned, forward_of
from raretokens.pipeline.planning.random_text import add_labels, write_random_tokens
from raretokens.run import Run
from raretokens.tasks import describe
from raretokens.training.config import TrainJob
from raretokens.training.document_batches import SMALLEST_BUCKET

STEPS = 2
SPARE = 4  # length of the random training text, in steps


@dataclass(frozen=True)
class Trial:
    run: str
    device: str
    parameters: int
    tokens_per_step: int
    peak_mb: int
    planned_mb: int | None  # None if the forward pass depends on the values of its tensors
    loss_1: float
    loss_2: float
    evaluation: float
    seconds: float


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
    micro = max(min(planned.step.micro_batch, tokens), block)
    job = planned.job.replaced(training=training)
    model = forward_of(job, planned.text.rows, planned.step.device)
    step = replace(planned.step, forward=model, micro_batch=micro, is_accumulated=micro < tokens, snapshots=0.0)
    return replace(planned, job=job, step=step)


def attempt(root: Path, threads: int, planned: Planned) -> Trial:
    """Run the train stage in a separate process and a temporary folder.

    Args:
        root: root of the repository.
        threads: CPU threads of the stage.

    Raises:
        UserError: the stage failed; the message is its last line of output.
    """
    run = planned.run
    with tempfile.TemporaryDirectory(prefix="raretokens-") as name:
        folder = Path(name)
        _prepare(folder, planned)
        command = [str(root / "stages/run"), str(threads), "train", run.task, run.name]
        start = time.monotonic()
        with open(folder / "output", "w+", encoding="utf-8") as output:
            process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if os.waitstatus_to_exitcode(status):
            raise UserError(f"{run.task}/{run.name}: {_last_line(folder / 'output')}")
        losses, evaluation = results(folder / trained(run.task, run.name))
        need = planned.step.on_device()
        if planned.step.device == "cuda":
            need.pop("program")  # the measured peak covers tensors only
        planned_bytes = sum(need.values())
        return Trial(
            run=f"{run.task}/{run.name}",
            device=planned.step.device,
            parameters=planned.parameters,
            tokens_per_step=planned.training.tokens_per_step,
            peak_mb=round(_peak(folder, run, usage.ru_maxrss) / 1e6),
            planned_mb=None if math.isnan(planned_bytes) else round(planned_bytes / 1e6),
            loss_1=losses[0],
            loss_2=losses[1],
            evaluation=evaluation,
            seconds=round(seconds, 1),
        )


def _prepare(folder: Path, planned: Planned) -> None:
    """Write the job of this run, machine.yaml, and random token files."""
    run, training, step = planned.run, planned.training, planned.step
    kind = describe(run.task).kind
    longest = training.block if kind in ("bitext", "documents") else None
    splits = {"train": planned.sides * SPARE * training.tokens_per_step, "valid": planned.sides * step.micro_batch}
    write_random_tokens(folder / tokens_folder(run.tokens), planned.text.rows, splits, longest)
    classes = run.shape.get("classes", 0)
    add_labels(folder / tokens_folder(run.tokens), kind, classes, training.block)
    write_text(folder / job_file(f"train-{run.task}", run.name), job_text(shortened(planned), {}))
    write_text(folder / MACHINE, f"micro_batch: {step.micro_batch}\n")


def shortened(planned: Planned) -> TrainJob:
    """Return the job of the trial: two steps, and an evaluation after the second."""
    job = planned.job
    training = planned.training.replaced(
        steps=STEPS, warmup=STEPS, validate_every=STEPS, validation_tokens=None, snapshot_every=STEPS
    )
    run = job.run.replaced(options=from_the_start(job.run.options), init_from=None)
    return job.replaced(run=run, training=training)


def from_the_start(options: dict) -> dict:
    """Return options with which an objective with a delayed `start` acts from the first step, with any vocabulary."""
    return {name: 0 if name in ("start", "popular_types") else value for name, value in options.items()}


def results(folder: Path) -> tuple[list[float], float]:
    """Read the losses of the steps and the NLL of the evaluation. They are finite, since training stops otherwise."""
    with open(folder / "log.tsv", encoding="utf-8", newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file, delimiter="\t")]
    summary = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return losses, summary["kept"]["valid_nll"]


def _peak(folder: Path, run: Run, resident: int) -> float:
    """Return the peak memory in bytes that the stage recorded, else the peak resident memory `resident` (given in kB)."""
    recorded = json.loads((folder / TIMING / f"{run.task}-{run.name}.json").read_text(encoding="utf-8"))
    return recorded.get("peak_memory_bytes") or resident * 1024


def _last_line(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "the train stage printed nothing")
