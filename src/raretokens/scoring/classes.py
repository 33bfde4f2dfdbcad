"""What classifiers are scored by: their predictions of the test text, and their table."""

import math

import numpy as np

from raretokens.metrics.accuracy import accuracy, drawn_accuracy, mean_nll
from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.geometry import geometry
from raretokens.scoring.layout import Signed


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
