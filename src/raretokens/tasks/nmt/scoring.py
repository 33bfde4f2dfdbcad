"""What translation models are scored by."""

from scipy import sparse

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.neighbours import neighbours
from raretokens.evaluation.metrics.similarity import alignsim
from raretokens.evaluation.score_files import Signed
from raretokens.tasks.nmt.bleu import bleu, drawn_bleu
from raretokens.tasks.nmt.job import Score
from raretokens.tokenization.vocabulary import SPACE

LINKED = 0.01  # of a query's links to other types


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    places = artifacts.places
    links = sparse.load_npz(places.alignment / "links.npz")  # read both ways, so a reversed run has the same
    similar, signature = alignsim(artifacts.table, links, artifacts.groups)
    return {
        **bleu(job.texts, places.corpora / job.texts.corpus, places.output, ".txt", artifacts.run.reverse),
        **geometry(artifacts),
        "neighbours.translations": _translations(artifacts, links, job.queries),
        "alignsim": (similar, signature + (f"|pairs:{job.aligned}" if job.aligned else "")),
        "valid_nll": (artifacts.summary["kept"]["valid_nll"], "log:e|unit:piece|checkpoint:scored|split:valid"),
    }


def _translations(artifacts: Artifacts, links: sparse.spmatrix, queries: list[str]) -> tuple[float | None, str]:
    """Share of the queries' listed neighbours that the aligner links to them in at least one case of a hundred."""
    both = sparse.csr_array(links + links.T, dtype=float)
    pieces = {piece: number for number, piece in enumerate(artifacts.vocabulary.pieces)}
    near, _ = neighbours(artifacts.table, artifacts.vocabulary.pieces, artifacts.groups, queries)
    linked = [
        _share(both, pieces.get(SPACE + query, pieces.get(query)), pieces[piece]) >= LINKED
        for query, listed in near.items()
        for piece, _, _ in listed
    ]
    return (sum(linked) / len(linked) if linked else None), f"linked:{LINKED:g}"


def _share(both: sparse.csr_array, query: int, piece: int) -> float:
    """Of the links of a query to other types, those to a piece."""
    row = both[[query]].toarray()[0]
    others = row.sum() - row[query]
    return float(row[piece] / others) if others else 0.0


def drawn(job: Score, artifacts: Artifacts) -> Replicates:
    """Metric -> its values on drawn test sets."""
    places = artifacts.places
    return drawn_bleu(job.texts, places.corpora / job.texts.corpus, places.output / "test.txt", artifacts.run.reverse)


def hyperparameters(job: Score) -> dict:
    return {"beam": job.texts.decoding.beam, "length_penalty": job.texts.decoding.length_penalty}
