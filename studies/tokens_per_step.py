"""Does an embedding matrix degenerate with training steps or with tokens?

    cd scales/small && python ../../studies/tokens_per_step.py base-1k-mle base-4k-mle

Runs with equal settings and equal text, but different numbers of tokens per training step, separate the two. The script prints
and writes studies/tokens-per-step-<scale>.csv and .svg: for each copy of the embedding matrix the training step, the tokens
that were read, the sum of the learning rates so far, the mean cosine and the share of positive cosines by frequency group, the
mean cosine of the types that are a target equally often per step (0.01 to 0.02 times), and the drift. The drift is the length
of the mean displacement of the rare rows since initialisation, divided by the square root of the width. Adam moves each
coordinate by about the learning rate if its gradient keeps its sign. So the drift of rows that share a gradient should be
proportional to the sum of the learning rates, whatever the number of tokens per step. Rows of other runs stay in the CSV, so
the weights of all runs need not exist at the same time. Without a run, the figure is drawn again.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure as Canvas
from safetensors import safe_open

from raretokens import paths
from raretokens.evaluation.metrics.isotropy import group_cosine, positive_cosine, vector_sum
from raretokens.pipeline.config import load
from raretokens.pipeline.jobs import train_job
from raretokens.report.figure_styles import STYLE
from raretokens.report.figures import save
from raretokens.tasks.parameters import Parameters
from raretokens.tokenization.vocabulary import RARE, VOCABULARY, Vocabulary
from raretokens.training.config import Training
from raretokens.training.rule import learning_rate

GROUPS = ("total", "freq", "med", "rare")
COLUMNS = ["task", "run", "tokens per step", "step", "tokens", "sum of rates", *(f"cosine {group}" for group in GROUPS),
           "positive total", "positive rare", "cosine of equally rare per step",
           "drift of rare rows"]  # fmt: skip
PER_STEP = 0.01, 0.02  # occurrences as a target in a training step
SHOWN = 2000  # rows of a group, evenly spaced, whose cosines are counted


def summed_rates(training: Training, step: int) -> float:
    """Return the sum of the learning rates of the first steps."""
    if training.rule.name != "warmup_adam":
        return step * training.peak_lr
    return sum(learning_rate(number, training.peak_lr, training.warmup) for number in range(1, step + 1))


def course(parameters: Parameters, task: str, run: str) -> Iterator[list]:
    """Yield a row of COLUMNS for each copy of the embedding matrix of a run."""
    tokens, training = parameters.run(task, run).tokens, train_job(parameters, parameters.run(task, run)).training
    vocabulary = Vocabulary.read(paths.tokens(tokens) / VOCABULARY)
    groups = vocabulary.frequency_groups(parameters.tokens[tokens].groups)
    trained = json.loads((paths.trained(task, run) / "training.json").read_text(encoding="utf-8"))
    often = vocabulary.target_counts / trained["updates_per_epoch"]
    alike = np.flatnonzero((often > PER_STEP[0]) & (often <= PER_STEP[1]))
    with safe_open(paths.trained(task, run) / "snapshots.safetensors", framework="numpy") as file:
        keys = sorted(file.keys())  # six digits
        first = file.get_tensor(keys[0]).astype(float)
        for key in keys:
            step, embedding = int(key), file.get_tensor(key).astype(float)
            cosine, (positive, _) = group_cosine(embedding, groups)[0], positive_cosine(embedding, groups, limit=SHOWN)
            total, diagonal = vector_sum(embedding, alike)
            shared = (total @ total - diagonal) / (len(alike) * (len(alike) - 1))
            moved = (embedding - first)[groups == RARE].mean(axis=0)
            numbers = [summed_rates(training, step), *(cosine[group] for group in GROUPS), positive["total"],
                       positive["rare"], shared, np.linalg.norm(moved) / np.sqrt(len(moved))]  # fmt: skip
            yield [task, run, training.tokens_per_step, step, step * training.tokens_per_step, *(f"{x:.4g}" for x in numbers)]


def draw(rows: list[list], path: Path) -> None:
    """Draw the mean cosine of the rare rows against steps and against tokens, and the drift against the sum of the rates."""
    canvas = Canvas(figsize=(10, 3.3), layout="constrained")
    axes = canvas.subplots(1, 3)
    panels = (("step", "cosine rare"), ("tokens", "cosine rare"), ("sum of rates", "drift of rare rows"))
    for axis, (x, y) in zip(axes, panels, strict=True):
        for run in dict.fromkeys(row[0] for row in rows):
            own = [row for row in rows if row[0] == run]
            across, up = ([float(row[COLUMNS.index(name)]) for row in own] for name in (x, y))
            axis.plot(across, up, label=f"{run}: {int(own[0][1]):,} tokens per step")
        axis.set(xlabel={"step": "training step", "tokens": "tokens read"}.get(x, "sum of the learning rates"),
                 ylabel="mean cosine of rare rows" if y.startswith("cosine") else y)  # fmt: skip
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    save(canvas, path)


def main(*runs: str) -> None:
    parameters = load()
    rows = [row for run in runs for row in course(parameters, run)]
    for row in (COLUMNS, *rows):
        print(*(f"{cell:>15}" for cell in row))
    path = Path(__file__).parent / f"tokens-per-step-{parameters.scale}.csv"
    if path.exists():
        with path.open(newline="") as file:
            rows = [*(row for row in csv.reader(file) if row != COLUMNS and row[0] not in runs), *rows]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    with matplotlib.rc_context(STYLE):
        draw(rows, path.with_suffix(".svg"))


if __name__ == "__main__":
    main(*sys.argv[1:])
