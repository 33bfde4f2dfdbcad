"""The scores of classified documents that need no model: the most frequent class, and what the text is made of."""

from pathlib import Path

from raretokens.evaluation import classification as majority
from raretokens.evaluation.artifacts import lines
from raretokens.evaluation.config import Majority
from raretokens.evaluation.metrics.text import documents

Job = Majority


def score(job: Majority, corpora: Path, token_files: Path, scores: Path) -> None:
    """Write <name>.json and .csv."""
    corpus = corpora / job.corpus
    lengths = {split: [len(text.split()) for text in lines(corpus / f"{split}.txt")] for split in majority.SPLITS}
    classes = len({*lines(corpus / "train.labels")})
    majority.score(job.name, job.task, corpus, ".labels", scores, {"documents": documents(lengths, classes)})
