"""What word embeddings are scored by: word similarity, and the geometry of the table that words are looked up in."""

from functools import partial

from raretokens.evaluation.artifacts import Artifacts
from raretokens.evaluation.geometry import geometry
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics import similarity
from raretokens.evaluation.score_files import Signed
from raretokens.tasks.skipgram.job import Score
from raretokens.tokenization.vocabulary import SPECIALS, UNK

SETS = (*similarity.SETS, "simlex")
FORM = "lower-case"


def metrics(job: Score, artifacts: Artifacts) -> Signed:
    """Raises UserError where artifacts do not fit."""
    rows, sets = _rows(artifacts), _sets(artifacts)
    known = {name: _known(pairs, rows) for name, pairs in sets.items()}
    enough = {name: pairs for name, pairs in known.items() if len(pairs) > 1}
    value, signature = similarity.word_similarity(artifacts.table, enough, partial(_row, rows), form=FORM)
    likelihood = artifacts.summary["kept"]["valid_nll"]
    return {
        "valid_nll": (
            likelihood,
            f"log:e|unit:pair|negatives:{job.run.shape['negatives']}|checkpoint:scored|split:valid",
        ),
        "training.nll_to_uniform": (None, "no-likelihood:negatives-are-sampled"),
        "spearman": (dict.fromkeys(sets) | value, signature.replace("pairs:all", "pairs:known")),
        "pairs": ({name: len(pairs) for name, pairs in known.items()}, "of:both-words-known"),
        "coverage": similarity.coverage(sets, partial(_row, rows), form=FORM),
        **geometry(artifacts),
    }


def drawn(job: Score, artifacts: Artifacts) -> resampling.Replicates:
    """Metric -> its values on drawn test sets."""
    rows = _rows(artifacts)
    known = {name: _known(pairs, rows) for name, pairs in _sets(artifacts).items()}
    return {
        f"spearman.{name}": resampling.spearman(
            similarity.cosines(artifacts.table, pairs, partial(_row, rows)), similarity.scores(pairs)
        )
        for name, pairs in known.items()
        if len(pairs) > 1
    }


def hyperparameters(job: Score) -> dict:
    adversary = {"hidden_times_width": 1.5} if job.run.options.get("hidden") else {}
    return {**adversary, "least_count": job.least_count, "rule": job.training.rule.name, **job.training.rule.options}


def _sets(artifacts: Artifacts) -> dict[str, list[similarity.Pair]]:
    """Of those that the scale has fetched, in lower case as the text is."""
    folder = artifacts.places.corpora / "similarity"
    files = {name: folder / f"{name}.tsv" for name in SETS}
    return {
        name: [(first.lower(), second.lower(), score) for first, second, score in similarity.read_pairs(file)]
        for name, file in files.items()
        if file.exists()
    }


def _known(pairs: list[similarity.Pair], rows: dict[str, int]) -> list[similarity.Pair]:
    """Pairs of two words that have rows: a word that the text hardly has says nothing of how the others lie."""
    return [pair for pair in pairs if pair[0] in rows and pair[1] in rows]


def _rows(artifacts: Artifacts) -> dict[str, int]:
    pieces = artifacts.vocabulary.pieces[: artifacts.vocabulary.types]
    return {word: row for row, word in enumerate(pieces) if row >= len(SPECIALS)}


def _row(rows: dict[str, int], word: str) -> list[int]:
    return [rows.get(word, UNK)]
