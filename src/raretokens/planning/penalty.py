"""Memory of an objective's penalty on the table, measured on a small one: a new objective needs no entry anywhere."""

import torch
from torch.autograd.graph import saved_tensors_hooks

from raretokens.loss.facts import facts
from raretokens.objectives.building import build
from raretokens.run import Run

ROWS, WIDTH = 256, 32


def penalty(run: Run, rows: int, width: int) -> float:
    """Bytes that the penalty on a table of rows x width keeps for the backward pass; they grow with both."""
    few = facts(torch.ones(ROWS, dtype=torch.int64), width=WIDTH, updates_per_epoch=1, specials=4, pad=1)
    table, kept = torch.ones(ROWS, WIDTH, requires_grad=True), {}
    with torch.random.fork_rng(devices=[]):
        objective = build(run.objective, few, **from_the_start(run.options))
        objective.begin_update(few.counts)
        with saved_tensors_hooks(lambda tensor: kept.setdefault(tensor.data_ptr(), tensor), lambda tensor: tensor):
            objective.penalty(table)
    bytes_ = sum(tensor.nbytes for tensor in kept.values() if tensor.data_ptr() != table.data_ptr())
    return bytes_ / ROWS / WIDTH * rows * width


def from_the_start(options: dict) -> dict:
    """Options with which an objective that waits for an update (`start`) acts in the first one, on a table of any size."""
    return {name: 0 if name in ("start", "popular_types") else value for name, value in options.items()}
