"""Sentence pairs as updates."""

from pathlib import Path

from raretokens.tokenization.token_files import Bitext
from raretokens.training.config import TrainJob as Job
from raretokens.training.document_batches import Pairs


def data(job: Job, folder: Path) -> tuple[Pairs, Pairs]:
    """Training and validation pairs."""
    run, training = job.run, job.training
    train, valid = (Bitext(folder, split, run.reverse) for split in ("train", "valid"))
    updates = Pairs(train, training.block, training.tokens_per_update, run.seed)
    return updates, Pairs(valid, training.block, first=training.validation_tokens)
