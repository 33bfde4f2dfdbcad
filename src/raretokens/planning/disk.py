"""Disk that a run needs, in bytes: what it leaves, and what only lives while it trains."""

from raretokens.tokenization.token_files import dtype_for
from raretokens.training.config import Training

FLOAT, HALF = 4, 2
LOG = 100  # of log.tsv an update, and again in the state


def snapshots(training: Training, width: int, rows: int) -> float:
    """Copies of the table: the first, one every snapshot_every updates, and the last."""
    copies = 1 + -(-training.updates // training.snapshot_every)
    return float(copies * rows * width * HALF)


def left(training: Training, width: int, rows: int, parameters: int) -> float:
    """data/runs/<task>/<run>: weights, copies of the table, log."""
    return snapshots(training, width, rows) + FLOAT * parameters + LOG * training.updates


def passing(training: Training, width: int, rows: int, parameters: int) -> float:
    """data/scratch: the copies of the table, two resumable states beside the new one, and checkpoints.

    A state holds weights and both of Adam's moments. Each of the two and the training may keep other checkpoints, and one more is
    being written.
    """
    kept = 1 if training.keep == "best" else training.keep
    state = 3 * FLOAT * parameters + LOG * training.updates
    return snapshots(training, width, rows) + (3 * kept + 1) * FLOAT * parameters + 3 * state


def token_files(rows: int, tokens: int | None) -> float:
    return float(dtype_for(rows).itemsize * (tokens or 0))
