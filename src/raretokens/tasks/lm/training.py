"""The text of a language model as updates."""

from pathlib import Path

from raretokens.subword.streams import tokens
from raretokens.training.blocks import Blocks
from raretokens.training.job import Job


def data(job: Job, folder: Path) -> tuple[Blocks, Blocks]:
    """Training and validation text."""
    training = job.training
    updates = Blocks(tokens(folder, "train"), training.block, training.tokens_per_update, job.run.seed)
    return updates, Blocks(tokens(folder, "valid"), training.block, first=training.validation_tokens)
