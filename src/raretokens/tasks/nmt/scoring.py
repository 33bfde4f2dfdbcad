"""What translation models are scored by."""

from scipy import sparse

from raretokens.metrics.alignsim import alignsim
from raretokens.metrics.resampling import Replicates
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.geometry import geometry
from raretokens.scoring.layout import Signed
from raretokens.tasks.nmt.bleu import bleu, drawn_bleu
from raretokens.tasks.nmt.job import Score


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    places = artifacts.places
    links = sparse.load_npz(places.alignment / "links.npz")  # read both ways, so a reversed run has the same
    similar, signature = alignsim(artifacts.table, links, artifacts.groups)
    return {
        **bleu(job.texts, places.corpora / job.texts.corpus, places.output, ".txt", artifacts.run.reverse),
        **geometry(artifacts),
        "alignsim": (similar, signature + (f"|pairs:{job.aligned}" if job.aligned else "")),
        "valid_nll": (artifacts.summary["kept"]["valid_nll"], "log:e|unit:piece|checkpoint:scored|split:valid"),
    }


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets."""
    places = artifacts.places
    return drawn_bleu(job.texts, places.corpora / job.texts.corpus, places.output / "test.txt", artifacts.run.reverse)


def hyperparameters(job: Score) -> dict:
    return {"beam": job.texts.decoding.beam, "length_penalty": job.texts.decoding.length_penalty}
