"""The text of a language model as updates."""

from pathlib import Path

from raretokens.tokenization.token_files import tokens
from raretokens.training.config import TrainJob as Job
from raretokens.training.token_batches import Blocks


def data(job: Job, folder: Path) -> tuple[Blocks, Blocks]:
    """Training and validation text."""
    training = job.training
    updates = Blocks(tokens(folder, "train"), training.block, training.tokens_per_update, job.run.seed)
    return updates, Blocks(tokens(folder, "valid"), training.block, first=training.validation_tokens)
