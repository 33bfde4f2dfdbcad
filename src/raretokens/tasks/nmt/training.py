"""Sentence pairs as updates."""

from pathlib import Path

from raretokens.subword.streams import Bitext
from raretokens.training.job import Job
from raretokens.training.pairs import Pairs


def data(job: Job, folder: Path) -> tuple[Pairs, Pairs]:
    """Training and validation pairs."""
    run, training = job.run, job.training
    train, valid = (Bitext(folder, split, run.reverse) for split in ("train", "valid"))
    updates = Pairs(train, training.block, training.tokens_per_update, run.seed)
    return updates, Pairs(valid, training.block, first=training.validation_tokens)
