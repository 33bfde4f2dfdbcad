"""Documents as updates, and the loss of their classes."""

from pathlib import Path

from raretokens.errors import UserError
from raretokens.tokenization.token_files import labels_of, read_meta, tokens
from raretokens.training.config import TrainJob as Job
from raretokens.training.criterion import ClassScores
from raretokens.training.document_batches import Documents

CRITERION = ClassScores


def data(job: Job, folder: Path) -> tuple[Documents, Documents]:
    """Training and validation documents. UserError where the model has another number of classes than the text."""
    run, training, classes = job.run, job.training, read_meta(folder)["classes"]
    if run.shape["classes"] != len(classes):
        raise UserError(
            f"{run.task}.sizes.{run.size}.classes: {run.shape['classes']}; "
            f"{run.tokens} has {len(classes)}: {', '.join(classes)}"
        )
    train, valid = ((tokens(folder, split), labels_of(folder, split)) for split in ("train", "valid"))
    updates = Documents(*train, training.block, training.tokens_per_update, run.seed)
    return updates, Documents(*valid, training.block, first=training.validation_tokens)
