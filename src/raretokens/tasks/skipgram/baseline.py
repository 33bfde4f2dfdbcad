"""The scores of a text that need no model: how frequent its words are."""

from pathlib import Path

from raretokens.evaluation.artifacts import splits
from raretokens.evaluation.metrics.text import frequency, rank_frequency
from raretokens.evaluation.score_files import Signed, layout, write_drawn, write_json, write_points
from raretokens.tasks.skipgram.job import Baseline
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary

Job = Baseline


def score(job: Baseline, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json and .csv."""
    folder = token_files / job.words
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    metrics: Signed = {
        "frequency": frequency(vocabulary),
        "types": ({"total": vocabulary.types}, "fillers:no|specials:freq"),
        "tokens": ({split: facts["tokens"] for split, facts in splits(folder).items()}, "unit:word|line-ends:yes"),
    }
    write_json(scores / f"{job.name}.json", layout({"run": job.name, "task": job.task}, metrics))
    write_drawn(scores / f"{job.name}.drawn.csv", {})
    ranked = rank_frequency(vocabulary.counts)
    write_points(scores / f"{job.name}.csv", [("rank_frequency", "total", rank, share) for rank, share in ranked])
