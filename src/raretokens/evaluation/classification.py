"""Classifiers: predictions of the test set, their scores, and the scores of the majority baseline."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.evaluation.artifacts import Artifacts, lines, write_array
from raretokens.evaluation.config import ClassifierPredictJob, MajorityBaseline
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.predictions import accuracy, bootstrap_accuracy, mean_nll
from raretokens.evaluation.score_files import Metrics, write_baseline
from raretokens.tokenization.token_files import read_meta

if TYPE_CHECKING:
    from torch import nn

TOKENS_AT_ONCE = 16384  # of a forward pass; changes the speed alone
SPLITS = ("train", "valid", "test")
# Model, token files and longest sequence -> examples x classes.
PredictTest = Callable[["nn.Module", Path, int], np.ndarray]


def write_predictions(
    job: ClassifierPredictJob, predict_test: PredictTest, folder: Path, trained: Path, into: Path
) -> None:
    """Write log-probabilities of test examples x classes (natural, float32), in the order of the text.

    predict_test: `predict` of the task; folder: of the token files.
    """
    import torch

    from raretokens.models.registry import build, load_weights

    run = job.run
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], job.block)
    load_weights(model, trained / "model.safetensors")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        logprob = predict_test(model.to(device).eval(), folder, job.block)
    write_array(into / "logprob.npy", logprob)
    print(f"predict {run.name}: {logprob.shape[0]:,} test examples, {logprob.shape[1]} classes")


def class_metrics(artifacts: Artifacts, labels: np.ndarray, unit: str) -> Metrics:
    """Return the metrics of predictions and of the embedding matrix.

    labels: n, the right class of each test example; unit: what an example is. Raises UserError where artifacts do not fit.
    """
    logprob = artifacts.array("logprob")  # n x classes
    valid, uniform = artifacts.summary["kept"]["valid_nll"], math.log(logprob.shape[1])
    return {
        "accuracy": accuracy(logprob, labels),
        "test_nll": mean_nll(logprob, labels),
        "valid_nll": (valid, f"log:e|unit:{unit}|checkpoint:scored|split:valid"),
        "training.nll_to_uniform": (valid / uniform, "log:e|split:valid|over:ln(classes)"),
        **geometry(artifacts),
    }


def bootstrap_class_metrics(artifacts: Artifacts, labels: np.ndarray) -> Replicates:
    """Return metric -> its values on resampled test sets."""
    return {"accuracy.total": bootstrap_accuracy(artifacts.array("logprob"), labels)}


def score_majority(job: MajorityBaseline, corpus: Path, suffix: str, scores: Path, further: Metrics) -> None:
    """Write the scores of the most frequent class of the training text, taken for every test example.

    suffix: of the files with a class a line; further: metrics that are not of the classes.
    """
    classes = {split: lines(corpus / f"{split}{suffix}") for split in SPLITS}
    shares, labels = _majority(classes["train"], classes["test"])
    metrics: Metrics = {"accuracy": accuracy(shares, labels), **further}
    replicates = {"accuracy.total": bootstrap_accuracy(shares, labels)}
    counts = Counter(classes["train"]).most_common()
    points = [("class_frequency", "total", rank, count) for rank, (_, count) in enumerate(counts, 1)]
    write_baseline(scores, job.name, job.task, metrics, replicates, points)


def _majority(train: Sequence[str], test: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of test examples x classes, all the same, and the numbers of their classes."""
    counts = Counter(train)
    names = sorted(counts)
    shares = np.log([counts[name] / len(train) for name in names])
    labels = np.array([names.index(name) for name in test])
    return np.broadcast_to(shares, (len(test), len(names))), labels
