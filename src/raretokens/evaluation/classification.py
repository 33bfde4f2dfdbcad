"""What classifiers are scored by: their predictions of the test text, and their table.

Examples with a class each, without a model: the most frequent class of the training text, taken for every test example.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from raretokens.evaluation.artifacts import Artifacts, lines
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.predictions import accuracy, drawn_accuracy, mean_nll
from raretokens.evaluation.score_files import Signed, layout, write_drawn, write_json, write_points


def class_metrics(artifacts: Artifacts, labels: np.ndarray, unit: str) -> Signed:
    """labels: n, the right class of each test example; unit: what an example is.

    Raises UserError where artifacts do not fit.
    """
    logprob = _logprob(artifacts)
    valid, uniform = artifacts.summary["kept"]["valid_nll"], math.log(logprob.shape[1])
    return {
        "accuracy": accuracy(logprob, labels),
        "test_nll": mean_nll(logprob, labels),
        "valid_nll": (valid, f"log:e|unit:{unit}|checkpoint:scored|split:valid"),
        "training.nll_to_uniform": (valid / uniform, "log:e|split:valid|over:ln(classes)"),
        **geometry(artifacts),
    }


def drawn_class_metrics(artifacts: Artifacts, labels: np.ndarray) -> Replicates:
    """Metric -> its values on drawn test sets."""
    return {"accuracy.total": drawn_accuracy(_logprob(artifacts), labels)}


def _logprob(artifacts: Artifacts) -> np.ndarray:
    """n x classes."""
    return np.load(artifacts.places.output / "logprob.npy")


SPLITS = ("train", "valid", "test")


def score(name: str, task: str, corpus: Path, ending: str, scores: Path, further: Signed) -> None:
    """Write <name>.json and its CSV files; ending: of the files with a class a line. further: what else is measured."""
    classes = {split: lines(corpus / f"{split}{ending}") for split in SPLITS}
    shares, labels = _guess(classes["train"], classes["test"])
    metrics: Signed = {"accuracy": accuracy(shares, labels), **further}
    write_json(scores / f"{name}.json", layout({"run": name, "task": task}, metrics))
    write_drawn(scores / f"{name}.drawn.csv", {"accuracy.total": drawn_accuracy(shares, labels)})
    counts = Counter(classes["train"]).most_common()
    points = [("class_frequency", "total", rank, count) for rank, (_, count) in enumerate(counts, 1)]
    write_points(scores / f"{name}.csv", points)


def _guess(train: Sequence[str], test: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of test examples x classes, all the same, and the numbers of their classes."""
    counts = Counter(train)
    names = sorted(counts)
    shares = np.log([counts[name] / len(train) for name in names])
    labels = np.array([names.index(name) for name in test])
    return np.broadcast_to(shares, (len(test), len(names))), labels
