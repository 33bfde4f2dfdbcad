"""What classifiers of documents are scored by: their predictions, and the table of their words."""

import math

import numpy as np

from raretokens.metrics.accuracy import accuracy, drawn_accuracy, mean_nll
from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.geometry import geometry
from raretokens.scoring.job import Score
from raretokens.scoring.layout import Signed
from raretokens.subword.beside import labels_of


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    logprob, labels = _predicted(artifacts)
    valid, uniform = artifacts.summary["kept"]["valid_nll"], math.log(logprob.shape[1])
    return {
        "accuracy": accuracy(logprob, labels),
        "test_nll": mean_nll(logprob, labels),
        "valid_nll": (valid, "log:e|unit:document|checkpoint:scored|split:valid"),
        "training.nll_to_uniform": (valid / uniform, "log:e|split:valid|over:ln(classes)"),
        **geometry(artifacts),
    }


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets."""
    return {"accuracy.total": drawn_accuracy(*_predicted(artifacts))}


def hyperparameters(job: Score) -> dict:
    return {}


def _predicted(artifacts: Artifacts) -> tuple[np.ndarray, np.ndarray]:
    places = artifacts.places
    return np.load(places.output / "logprob.npy"), np.asarray(labels_of(places.tokens, "test"))
