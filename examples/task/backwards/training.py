"""The text of a language model from its end to its start, as updates."""

from pathlib import Path

from raretokens.tokenization.token_files import tokens
from raretokens.training.config import TrainJob as Job
from raretokens.training.token_batches import Blocks


def data(job: Job, folder: Path) -> tuple[Blocks, Blocks]:
    """Training and validation text."""
    training, (train, valid) = job.training, (tokens(folder, split)[::-1] for split in ("train", "valid"))
    updates = Blocks(train, training.block, training.tokens_per_update, job.run.seed)
    return updates, Blocks(valid, training.block, first=training.validation_tokens)
