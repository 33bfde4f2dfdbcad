"""The text of a recurrent language model as updates, and its loss."""

from pathlib import Path

from raretokens.tokenization.token_files import tokens
from raretokens.training.config import TrainJob as Job
from raretokens.training.criterion import Carried
from raretokens.training.token_batches import Columns, columns_of

CRITERION = Carried
VALIDATED = 10  # columns of the validation text


def data(job: Job, folder: Path) -> tuple[Columns, Columns]:
    """Training and validation text."""
    training = job.training
    columns = columns_of(training.tokens_per_update, training.block)
    updates = Columns(tokens(folder, "train"), training.block, columns, job.run.seed)
    return updates, Columns(tokens(folder, "valid"), training.block, VALIDATED, first=training.validation_tokens)
