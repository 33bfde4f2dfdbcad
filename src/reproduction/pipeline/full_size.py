"""Trial of a run with its full model: the train stage runs a few steps and an evaluation on random token ids."""

import csv
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from raretokens import csv_files
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.vocabulary import EOS, SPECIALS, VOCABULARY, Vocabulary
from reproduction.corpora.tokenization.token_files import IMAGES, LABELS, read_meta, token_dtype, write_meta
from reproduction.corpora.tokenization.token_files import tokens as read_tokens
from reproduction.paths import MACHINE, SCRATCH, TIMING, trained
from reproduction.paths import job as job_file
from reproduction.paths import tokens as tokens_folder
from reproduction.pipeline import settings
from reproduction.pipeline.job_file import job_text
from reproduction.pipeline.plan import PROGRAM, Planned
from reproduction.pipeline.short_training import OUTPUT, Version, last_line
from reproduction.tasks import describe
from reproduction.training.example_batches import SMALLEST_BUCKET
from reproduction.training.recipe import TrainJob

MEASURED = SCRATCH / "check.csv"  # the last trial of each run on this machine; plan reads its step times
STEPS = 4  # the first one warms up, and the last one evaluates, so that the median time is that of a plain step
SPARE = 4  # length of the random training text, in steps
AT_ONCE = ("start", "popular_types")  # options of objectives that a trial sets to 0
SEED, OCCURRENCES = 1, 1e8  # of random text: the total count in its vocabulary is of the order of the full corpora


def shrunk(job: TrainJob, tokens: int | None) -> TrainJob:
    """Limit the steps of a run to `tokens` tokens each. Model and vocabulary are unchanged."""
    training, task = job.training, describe(job.run.task)
    tokens = min(tokens or training.tokens_per_step, training.tokens_per_step)
    if task.kind == "bitext":
        tokens = max(tokens, SMALLEST_BUCKET)
    if task.kind == "images":
        tokens = max(tokens, training.block)  # an image is not cut
    return job.replaced(training=training.replaced(tokens_per_step=tokens, block=min(training.block, tokens)))


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
        losses, evaluation = results(folder / trained(run.task, run.name))
        recorded = json.loads((folder / TIMING / f"{run.task}-{run.name}.json").read_text(encoding="utf-8"))
    # The measured peak of a GPU covers tensors only.
    planned_bytes = planned.memory - (PROGRAM["cuda"] if planned.device == "cuda" else 0)
    return {
        "run": planned.name,
        "machine": recorded["machine"],
        "parameters": planned.model.parameters,
        "tokens_per_step": planned.training.tokens_per_step,
        "peak_mb": round(recorded["peak_memory_bytes"] / 1e6),
        "planned_mb": None if math.isnan(planned_bytes) else round(planned_bytes / 1e6),
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "evaluation": evaluation,
        "step_seconds": recorded["step_seconds"],
        "seconds": round(seconds, 1),
    }


def _prepare(folder: Path, planned: Planned) -> None:
    """Write the job of this run, machine.yaml, and random token files."""
    run = planned.run
    lengths = {"train": SPARE * planned.training.tokens_per_step, "valid": planned.micro_batch}
    write_random_text(folder / tokens_folder(run.tokens), planned.job, planned.vocabulary, lengths)
    write_text(folder / job_file(f"train-{run.task}", run.name), job_text(shortened(planned), {}))
    write_text(folder / MACHINE, machine_text(planned))


def machine_text(planned: Planned) -> str:
    """Return machine.yaml of the trial. It compiles if the run will: with `auto`, a few steps alone would not."""
    is_compiled = planned.device == "cuda" and settings.read().compiles(planned.run.architecture, planned.training.steps)
    return f"micro_batch: {planned.micro_batch}\ncompile: {str(is_compiled).lower()}\n"


def shortened(planned: Planned) -> TrainJob:
    """Return the job of the trial: a few steps, and an evaluation after the last."""
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


def record(row: dict[str, Any]) -> None:
    """Write the row of a trial into the CSV file, in place of an earlier row of the same run."""
    rows = {one["run"]: one for one in measured()} | {row["run"]: row}
    cells = [["" if one.get(key) is None else str(one[key]) for key in row] for one in rows.values()]
    write_text(MEASURED, csv_files.to_csv(cells, list(row)))


def measured() -> list[dict[str, str]]:
    """Return the rows of the trials on this machine."""
    return csv_files.read_csv(MEASURED).to_dict("records") if MEASURED.is_file() else []


def write_random_text(folder: Path, job: TrainJob, rows: int, tokens: dict[str, int]) -> None:
    """Write random token files of the kind that the task of a training job reads, with random classes or images.

    Args:
        rows: number of token types, including special tokens.
        tokens: split -> number of tokens of each side.
    """
    task, block = describe(job.run.task), job.training.block
    splits = {split: len(task.sides) * number for split, number in tokens.items()}
    write_random_tokens(folder, rows, splits, block if task.kind in ("bitext", "documents") else None)
    if task.kind in ("documents", "images"):
        _add_labels(folder, task.kind, job.run.shape.get("classes", 0), block)


def write_random_tokens(folder: Path, rows: int, splits: dict[str, int], longest: int | None = None) -> None:
    """Write vocabulary.tsv, meta.json and <split>.bin with random token ids, whose frequencies follow Zipf's law.

    Args:
        rows: number of token types, including special tokens.
        splits: split -> number of tokens.
        longest: maximum tokens per side of a sentence pair; None: one stream without pairs.
    """
    folder.mkdir(parents=True)
    random, share = np.random.default_rng(SEED), 1.0 / np.arange(1, rows - len(SPECIALS) + 1)
    share /= share.sum()
    counts = np.concatenate((np.zeros(len(SPECIALS)), share * OCCURRENCES)).astype(np.int64)
    counts[EOS] = OCCURRENCES / 25
    markers = (*SPECIALS, *(f"type{number}" for number in range(len(SPECIALS), rows)))
    Vocabulary(markers, counts * (1 if longest is None else 2), counts, 0).write(folder / VOCABULARY)
    dtype = token_dtype(rows)
    for split, tokens in splits.items():
        ids = len(SPECIALS) + np.searchsorted(share.cumsum(), random.random(tokens)).clip(max=len(share) - 1)
        if longest is not None:
            ids = _paired(ids, longest, random)
        ids.astype(dtype).tofile(folder / f"{split}.bin")
    meta = {"dtype": dtype.str, "vocabulary": rows, "fillers": 0}
    write_meta(folder, meta | {"splits": {name: {"tokens": count} for name, count in splits.items()}})


def _add_labels(folder: Path, kind: str, classes: int, pixels: int) -> None:
    """Add random classes to documents, or turn random token files into images."""
    random, meta = np.random.default_rng(SEED), read_meta(folder)
    for split in meta["splits"]:
        ids = np.array(read_tokens(folder, split))
        if kind == "documents":
            labels = random.integers(0, classes, np.count_nonzero(ids == EOS))
            labels.astype(meta["dtype"]).tofile(folder / f"{split}{LABELS}.bin")
            continue
        of_images = ids[: max(len(ids) // pixels, 1)]
        np.stack((of_images, np.full_like(of_images, EOS)), 1).tofile(folder / f"{split}.bin")
        random.integers(0, 256, (len(of_images), pixels)).astype(np.uint8).tofile(folder / f"{split}{IMAGES}.bin")
    names = [f"class{number}" for number in range(classes)]
    write_meta(folder, meta | {"classes": names, "pixels": pixels})


def _paired(ids: np.ndarray, longest: int, random: np.random.Generator) -> np.ndarray:
    """Split ids into sentence pairs of 2 to `longest` ids a side, including EOS. Both sides have equal length."""
    ids, start = ids.copy(), 0
    while start < len(ids):
        length = int(random.integers(2, longest + 1))
        if start + 2 * length > len(ids):
            return ids[:start]
        ids[[start + length - 1, start + 2 * length - 1]] = EOS
        start += 2 * length
    return ids
