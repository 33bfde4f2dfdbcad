"""The scores of a bitext that need no model: the source taken for its own translation."""

from pathlib import Path

from raretokens.metrics.corpus import rank_frequency
from raretokens.metrics.frequency import frequency
from raretokens.scoring.layout import Signed, layout
from raretokens.scoring.score_files import write_drawn, write_json, write_points
from raretokens.scoring.token_files import splits
from raretokens.subword.vocabulary import VOCABULARY, Vocabulary
from raretokens.tasks.nmt.bleu import bleu, drawn_bleu
from raretokens.tasks.nmt.job import Baseline

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
