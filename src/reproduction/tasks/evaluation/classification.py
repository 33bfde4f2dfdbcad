"""Predict and score the test set with a classifier, and score the majority baseline."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raretokens.metrics.predictions import accuracy, bootstrap_accuracy, mean_nll
from raretokens.metrics.score_files import Metrics, write_baseline
from reproduction.corpora.tokenization.token_files import read_meta
from reproduction.tasks.evaluation.artifacts import Artifacts, lines, write_array
from reproduction.tasks.evaluation.geometry import geometry
from reproduction.tasks.evaluation.job_specs import ClassifierPredictJob, MajorityBaseline

if TYPE_CHECKING:
    from torch import nn

TOKENS_AT_ONCE = 16384  # tokens per forward pass; affects speed only
SPLITS = ("train", "valid", "test")
# Model, folder of token files and maximum sequence length -> log-probabilities, examples x classes.
PredictTest = Callable[["nn.Module", Path, int], np.ndarray]


def write_predictions(
    job: ClassifierPredictJob, predict_test: PredictTest, folder: Path, trained: Path, into: Path
) -> None:
    """Write natural log-probabilities (test examples x classes, float32) in the order of the test set.

    predict_test: Function of the task that returns the log-probabilities.
    """
    import torch

    from reproduction.training.models.registry import build, load_weights

    run = job.run
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], job.block)
    load_weights(model, trained / "model.safetensors")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        logprob = predict_test(model.to(device).eval(), folder, job.block)
    write_array(into / "logprob.npy", logprob)
    print(f"predict {run.name}: {logprob.shape[0]:,} test examples, {logprob.shape[1]} classes")


def class_metrics(artifacts: Artifacts, labels: np.ndarray, unit: str) -> Metrics:
    """Return the metrics of the predictions and of the embedding matrix.

    Args:
        labels: Correct class index of each test example.
        unit: Name of an example for the signature, such as `document`.
    Raises:
        ValueError: The numbers of predictions and labels differ.
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


def score_majority(job: MajorityBaseline, corpus: Path, suffix: str, scores: Path, further: Metrics) -> None:
    """Write the scores of a baseline that predicts the most frequent training class for every test example.

    Args:
        suffix: Suffix of the label files, which have one class per line.
        further: Metrics to add to the scores.
    """
    classes = {split: lines(corpus / f"{split}{suffix}") for split in SPLITS}
    counts = Counter(classes["train"])
    names = sorted(counts)
    labels = np.array([names.index(name) for name in classes["test"]])
    of_class = np.log([counts[name] / len(classes["train"]) for name in names])
    shares = np.broadcast_to(of_class, (len(labels), len(names)))  # log-probabilities, test examples x classes
    metrics: Metrics = {"accuracy": accuracy(shares, labels), **further}
    replicates = {"accuracy.total": bootstrap_accuracy(shares, labels)}
    points = [("class_frequency", "total", rank, count) for rank, (_, count) in enumerate(counts.most_common(), 1)]
    write_baseline(scores, job.name, job.task, metrics, replicates, points)
