"""Counts of an update, which objectives are told before it."""

from collections.abc import Iterable

import torch
from torch import Tensor


def target_counts(targets: Iterable[Tensor], vocabulary: int, pad: int = -100) -> Tensor:
    """Occurrences of each type (N, int64) among the targets of an update: all of its micro-batches, without padding.

    With several processes the sum over all of them is wanted: `torch.distributed.all_reduce` the result.
    """
    flat = torch.cat([part.reshape(-1) for part in targets])
    return torch.bincount(flat[flat != pad], minlength=vocabulary)
