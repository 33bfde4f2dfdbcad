"""Does an embedding matrix degenerate with training steps or with tokens, and which settings prevent it?

    cd scales/small && python ../../docs/studies/tokens_per_step.py nmt/base-1k-mle nmt/base-4k-mle lm/small-1k-mle

Runs with equal settings and text, but different numbers of tokens per training step, separate steps from tokens. The script
writes tokens-per-step-<scale>.csv and .svg: for each copy of the embedding matrix the training step, the tokens
that were read, the sum of the learning rates so far, the mean cosine and the share of positive cosines by frequency group, the
mean cosine of the types that are a target equally often per step (0.01 to 0.02 times), the drift, the validation NLL of the
last validation, and the isotropy I(W). The drift is the length
of the mean displacement of the rare rows since initialisation, divided by the square root of the width. Adam moves each
coordinate by about the learning rate if its gradient keeps its sign. So the drift of rows that share a gradient should be
proportional to the sum of the learning rates, whatever the number of tokens per step. tokens-per-step-last-<scale>.csv
has the last copy of each run, and tokens-per-step-main-<scale>.svg two panels of the figure. Rows of other runs stay in
the CSV, so the weights of all runs need not exist at the same time. Without a run, the figures and the second CSV are made
again.
"""

import csv
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure as Canvas
from safetensors import safe_open
from shared import FOLDER, read_vocabulary, write_table

from raretokens import csv_files
from raretokens.figure_style import STYLE
from raretokens.metrics.isotropy import group_cosine, isotropy, log_partitions, positive_cosine, vector_sum
from raretokens.vocabulary import RARE
from reproduction import paths
from reproduction.pipeline.jobs import train_job
from reproduction.pipeline.parameters_file import load
from reproduction.report.figures import save
from reproduction.tasks.parameters import Parameters
from reproduction.training.recipe import Training
from reproduction.training.rule import learning_rate

GROUPS = ("total", "freq", "med", "rare")
COLUMNS = ["task", "run", "tokens per step", "step", "tokens", "sum of rates", *(f"cosine {group}" for group in GROUPS),
           "positive total", "positive rare", "cosine of equally rare per step",
           "drift of rare rows", "I(W)", "validation NLL"]  # fmt: skip
SIZES = {f"base-{name}-mle": f"{tokens} tokens per step" for name, tokens in
         (("512", "512"), ("1k", "1,024"), ("2k", "2,048"), ("4k", "4,096"))}  # fmt: skip
SETTINGS = {
    "base-1k-mle": "Adam, label smoothing 0.1, weight decay 0.01", "base-1k-unsmoothed-mle": "no label smoothing",
    "base-1k-no-decay-mle": "weight decay 0", "base-1k-decay-mle": "weight decay 0.1", "base-1k-ember": "Ember",
    "base-1k-coupled-adam": "Coupled Adam", "base-1k-sgd-mle": "gradient descent",
}  # fmt: skip
UNSMOOTHED = {f"base-{name}-unsmoothed-mle": f"{tokens}, no label smoothing" for name, tokens in
              (("1k", "1,024"), ("4k", "4,096"))}  # fmt: skip
PANELS = (  # title, columns, runs with their labels
    ("Steps of different sizes", "step", "cosine rare", SIZES),
    ("The same, by tokens", "tokens", "cosine rare", SIZES),
    ("Other settings, 1,024 tokens per step", "step", "cosine rare", SETTINGS),
    ("Drift", "sum of rates", "drift of rare rows", SIZES | UNSMOOTHED),
)
ACROSS = {"step": "training step", "tokens": "million tokens read", "sum of rates": "sum of the learning rates"}
SEED = re.compile(r"-\d$")
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
    vocabulary, groups = read_vocabulary(tokens, parameters)
    trained = json.loads((paths.trained(task, run) / "training.json").read_text(encoding="utf-8"))
    with (paths.trained(task, run) / "log.tsv").open(newline="") as file:
        nlls = [(int(row["update"]), row["valid_nll"]) for row in csv.DictReader(file, delimiter="\t") if row["valid_nll"]]
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
                       positive["rare"], shared, np.linalg.norm(moved) / np.sqrt(len(moved)),
                       isotropy(log_partitions(embedding, groups, ["total"]))[0]["total"]]  # fmt: skip
            validated = next((nll for at, nll in reversed(nlls) if at <= step), "")
            yield [task, run, training.tokens_per_step, step, step * training.tokens_per_step,
                   *(f"{x:.4g}" for x in numbers), validated]  # fmt: skip


def draw(rows: list[dict], panels: Sequence[tuple], path: Path) -> None:
    """Draw panels of PANELS, two beside each other, of the runs of translation."""
    canvas = Canvas(figsize=(10, 3.75 * len(panels) / 2), layout="constrained")
    runs = dict.fromkeys(row["run"] for row in rows)
    for axis, (title, x, y, labels) in zip(canvas.subplots(len(panels) // 2, 2).flat, panels, strict=True):
        for number, (name, label) in enumerate(labels.items()):
            for seed, run in enumerate(run for run in runs if SEED.sub("", run) == name):
                points = [(float(row[x]) / (1e6 if x == "tokens" else 1), float(row[y])) for row in rows if row["run"] == run]
                axis.plot(*zip(*points, strict=True), color=f"C{number}", label=None if seed else label)
        axis.set(title=title, xlabel=ACROSS[x], ylabel="mean cosine of rare rows" if y.startswith("cosine") else y)
        if x != "tokens":  # which has the labels of the panel before
            axis.legend(fontsize="small")
    save(canvas, path)


def main(*runs: str) -> None:
    parameters, names = load(), [tuple(run.split("/")) for run in runs]
    rows = [dict(zip(COLUMNS, row, strict=True)) for task, run in names for row in course(parameters, task, run)]
    path = FOLDER / f"tokens-per-step-{parameters.scale}.csv"
    if path.exists():
        former = csv_files.read_csv(path).to_dict("records")
        rows = [*(row for row in former if (row["task"], row["run"]) not in names), *rows]
    order = [run for task in ("lm", "nmt") for run in parameters.lines(task)]
    rows.sort(key=lambda row: (row["task"], int(row["tokens per step"]), order.index(row["run"]), int(row["step"])))
    write_table(path.stem, COLUMNS, rows)
    last = {(row["task"], row["run"]): row for row in rows}
    write_table(f"tokens-per-step-last-{parameters.scale}", COLUMNS, last.values())
    with matplotlib.rc_context(STYLE):
        translation = [row for row in rows if row["task"] == "nmt"]
        draw(translation, PANELS, path.with_suffix(".svg"))
        draw(translation, PANELS[::2], path.with_name(f"tokens-per-step-main-{parameters.scale}.svg"))  # for README


if __name__ == "__main__":
    main(*sys.argv[1:])
