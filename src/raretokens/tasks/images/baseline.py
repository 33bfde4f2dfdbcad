"""The scores of classified images that need no model: the most frequent class."""

from pathlib import Path

from raretokens.evaluation import classification as majority
from raretokens.evaluation.config import Majority

Job = Majority


def score(job: Majority, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json and .csv."""
    majority.score(job.name, job.task, corpora / job.corpus, ".txt", scores, {})
