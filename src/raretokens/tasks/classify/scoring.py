"""What classifiers of documents are scored by: their predictions, and the table of their words."""

import numpy as np

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.classification import class_metrics, drawn_class_metrics
from raretokens.evaluation.config import ScoreJob as Score
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.score_files import Signed
from raretokens.tokenization.token_files import labels_of


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
