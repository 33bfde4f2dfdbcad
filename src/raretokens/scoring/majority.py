"""Examples with a class each, without a model: the most frequent class of the training text, taken for every test example."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from raretokens.metrics.accuracy import accuracy, drawn_accuracy
from raretokens.scoring.artifacts import lines
from raretokens.scoring.layout import Signed, layout
from raretokens.scoring.score_files import write_drawn, write_json, write_points

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
