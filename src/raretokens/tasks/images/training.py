"""Images as updates."""

from pathlib import Path

from raretokens.errors import UserError
from raretokens.tokenization.token_files import images_of
from raretokens.training.config import TrainJob as Job
from raretokens.training.image_batches import Images


def data(job: Job, folder: Path) -> tuple[Images, Images]:
    """Training and validation images. UserError where they have another number of pixels than the recipe's `block`."""
    run, training = job.run, job.training
    train, valid = (images_of(folder, split) for split in ("train", "valid"))
    pixels = train[0].shape[1]
    if pixels != training.block:
        raise UserError(f"{run.task}.training.block: {training.block}; images of {run.tokens} have {pixels} pixels")
    updates = Images(*train, training.tokens_per_update, run.seed)
    return updates, Images(*valid, first=training.validation_tokens)
