"""Score the predictions of a classifier, and the majority baseline."""

import math
from collections import Counter
from pathlib import Path

import numpy as np

from raretokens.metrics.predictions import accuracy, bootstrap_accuracy, mean_nll
from raretokens.metrics.score_files import Metrics, write_baseline
from reproduction.tasks.evaluation.artifacts import Artifacts, lines
from reproduction.tasks.evaluation.geometry import geometry
from reproduction.tasks.evaluation.job_specs import MajorityBaseline

SPLITS = ("train", "valid", "test")


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
