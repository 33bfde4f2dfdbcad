"""What classifiers of documents are scored by: their predictions, and the table of their words."""

import numpy as np

from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.classes import class_metrics, drawn_class_metrics
from raretokens.scoring.job import Score
from raretokens.scoring.layout import Signed
from raretokens.subword.beside import labels_of


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    return class_metrics(artifacts, _labels(artifacts), "document")


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets."""
    return drawn_class_metrics(artifacts, _labels(artifacts))


def hyperparameters(job: Score) -> dict:
    return {}


def _labels(artifacts: Artifacts) -> np.ndarray:
    return np.asarray(labels_of(artifacts.places.tokens, "test"))
