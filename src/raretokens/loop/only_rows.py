"""Train some rows of the embeddings, such as those of new tokens, and keep all other rows as they are, to the bit.

The objective has no name on the run sheet, because a list of rows depends on a tokenizer.
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loop.loop import matrix_of
from raretokens.loss import facts, objective


class OnlyRows(objective.Objective):
    """Maximum likelihood that trains the chosen rows of the output embedding, and of an input embedding that is not tied to it.

    `Loop` and `ObjectiveTrainer` keep the other rows despite weight decay and the optimizer's moments. Gradient clipping does not
    see the gradients of those rows. Other parameters train unless requires_grad is False.
    """

    freezes_input_rows = True

    def __init__(self, facts: objective.Facts, trained: Tensor) -> None:
        super().__init__(facts)
        self.register_buffer("others", ~trained, persistent=False)

    def frozen_rows(self) -> Tensor | None:
        return self.others


def train_only_rows(embedding: Tensor | nn.Module, rows: Iterable[int] | Iterable[bool], *, pad: int = -100) -> OnlyRows:
    """Return an objective that trains only some rows of the embeddings.

    Args:
        embedding: the output embedding, N x d, or its module.
        rows: ids of the rows to train, or a mask (N, bool) that is true for them.
        pad: target id of padding.

    Raises:
        UserError: if there are no rows, an id has no row, or `rows` are neither whole numbers nor such a mask.
    """
    embedding = matrix_of(embedding)
    ids = _ids(rows, len(embedding))
    if not ids or ids[0] < 0 or ids[-1] >= len(embedding):
        given = f"{ids[0]}..{ids[-1]}" if ids else "none"
        raise UserError(f"rows: {given} is not allowed: should be ids in 0..{len(embedding) - 1}")
    trained = torch.zeros(len(embedding), dtype=torch.bool)
    trained[ids] = True
    counts = torch.zeros(len(embedding), dtype=torch.int64)  # maximum likelihood needs none
    return OnlyRows(facts.facts(counts, width=embedding.shape[1], steps_per_epoch=1, pad=pad), trained)


def _ids(rows: Iterable[int] | Iterable[bool], size: int) -> list[int]:
    try:
        values = torch.as_tensor(rows if isinstance(rows, Tensor | np.ndarray) else list(rows))
    except (TypeError, ValueError, RuntimeError):
        values = torch.tensor(math.nan)
    if values.dtype == torch.bool and values.shape == (size,):
        values = values.nonzero().flatten()
    if values.numel() and (values.dtype == torch.bool or values.is_floating_point() or values.is_complex()):
        raise UserError(f"rows: should be ids, which are whole numbers, or a mask of {size} truth values")
    return sorted({*values.flatten().tolist()})
