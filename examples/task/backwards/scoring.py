"""What language models from right to left are scored by: their validation text, and their table."""

from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.geometry import geometry
from raretokens.scoring.job import Score
from raretokens.scoring.layout import Signed


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    likelihood = artifacts.summary["kept"]["valid_nll"]
    return {"valid_nll": (likelihood, "log:e|unit:piece|checkpoint:scored|split:valid"), **geometry(artifacts)}


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets: none here."""
    return {}


def hyperparameters(job: Score) -> dict:
    return {}
