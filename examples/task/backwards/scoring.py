"""What language models from right to left are scored by: their validation text, and their table."""

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.config import ScoreJob as Score
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.score_files import Signed


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    likelihood = artifacts.summary["kept"]["valid_nll"]
    return {"valid_nll": (likelihood, "log:e|unit:piece|checkpoint:scored|split:valid"), **geometry(artifacts)}


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets: none here."""
    return {}


def hyperparameters(job: Score) -> dict:
    return {}
