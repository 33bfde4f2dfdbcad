"""The scores of a bitext that need no model: the source taken for its own translation."""

from pathlib import Path

from raretokens.evaluation.artifacts import splits
from raretokens.evaluation.metrics.text import frequency, rank_frequency
from raretokens.evaluation.score_files import Signed, layout, write_drawn, write_json, write_points
from raretokens.tasks.nmt.bleu import bleu, drawn_bleu
from raretokens.tasks.nmt.job import Baseline
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary

Job = Baseline


def score(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json and .csv."""
    pieces, corpus = token_files / job.pieces, corpora / job.texts.corpus
    pairs = {split: facts["lines"] for split, facts in splits(pieces).items()}
    metrics: Signed = {**bleu(job.texts, corpus, corpus, ".source"), "corpus.pairs": (pairs, "unit:sentence-pair")}
    vocabulary = Vocabulary.read(pieces / VOCABULARY)
    metrics |= {"frequency": frequency(vocabulary), "types": ({"total": vocabulary.types}, "fillers:no")}
    write_json(scores / f"{job.name}.json", layout({"run": job.name, "task": job.task}, metrics))
    write_drawn(scores / f"{job.name}.drawn.csv", drawn_bleu(job.texts, corpus, corpus / "test.source"))
    ranked = rank_frequency(vocabulary.counts)
    write_points(scores / f"{job.name}.csv", [("rank_frequency", "total", rank, share) for rank, share in ranked])
