"""What a training loop of one's own needs beside an objective: facts of the text, counts of an update, frozen rows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from raretokens.training.objective import Facts, Objective


def facts(
    counts: Tensor,
    *,
    width: int,
    updates_per_epoch: int,
    rare_share: float = 0.2,
    specials: int = 0,
    pad: int = -100,
    label_smoothing: float = 0.0,
) -> Facts:
    """Facts from the counts of the training targets (N, int64, any order of ids).

    The rare group is the `rare_share` of types that occur least often (AGG section 3.1 takes 20 %); ids below `specials`
    never belong to it. width: d. pad: the target id that marks no position. Raises ValueError on counts that are no vector.
    """
    if counts.dim() != 1:
        raise ValueError(f"counts has shape {tuple(counts.shape)}; expected one entry for each type")
    rare = torch.zeros(len(counts), dtype=torch.bool, device=counts.device)
    by_frequency = counts.argsort(descending=True, stable=True)
    rare[by_frequency[round(len(counts) * (1 - rare_share)) :]] = True
    rare[:specials] = False
    return Facts(
        counts=counts,
        rare=rare,
        types=len(counts),
        specials=specials,
        pad=pad,
        updates_per_epoch=updates_per_epoch,
        width=width,
        label_smoothing=label_smoothing,
    )


def target_counts(targets: Iterable[Tensor], vocabulary: int, pad: int = -100) -> Tensor:
    """Occurrences of each type (N, int64) among the targets of an update: all of its micro-batches, without padding.

    With several processes the sum over all of them is wanted: `torch.distributed.all_reduce` the result.
    """
    flat = torch.cat([part.reshape(-1) for part in targets])
    return torch.bincount(flat[flat != pad], minlength=vocabulary)


@contextmanager
def keep_frozen_rows(objective: Objective, table: Tensor) -> Iterator[None]:
    """Around the optimizer's step: rows that the objective freezes keep their values, whatever decay and momentum do."""
    frozen = objective.frozen_rows()
    if frozen is None:
        yield
        return
    if table.grad is not None:
        table.grad[frozen] = 0.0
    before = table.detach()[frozen]
    yield
    table.detach()[frozen] = before
