"""Train some rows of the embeddings, such as those of new tokens, and keep all other rows as they are, to the bit.

The objective has no name on the run sheet, because a list of rows depends on a tokenizer.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from raretokens.errors import UserError
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


def train_only_rows(embedding: Tensor, rows: Iterable[int], *, pad: int = -100) -> OnlyRows:
    """Return an objective that trains only some rows of the embeddings.

    Args:
        embedding: the output embedding, N x d.
        rows: ids of the rows to train.
        pad: target id of padding.

    Raises:
        UserError: if there are no rows, or an id has no row.
    """
    ids = sorted({int(row) for row in rows})
    if not ids or ids[0] < 0 or ids[-1] >= len(embedding):
        given = f"{ids[0]}..{ids[-1]}" if ids else "none"
        raise UserError(f"rows: {given} is not allowed: should be ids in 0..{len(embedding) - 1}")
    trained = torch.zeros(len(embedding), dtype=torch.bool)
    trained[ids] = True
    counts = torch.zeros(len(embedding), dtype=torch.int64)  # maximum likelihood needs none
    return OnlyRows(facts.facts(counts, width=embedding.shape[1], steps_per_epoch=1, pad=pad), trained)
