"""The loss of a classifier whose scores of the classes come from a layer of its own: its table is looked up and is no softmax."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loss.gated_cross_entropy import SummedLoss
from raretokens.loss.objective import Objective
from raretokens.training.criterion import Criterion
from raretokens.training.updates import Batch

OF_A_SOFTMAX = (
    "loss",
    "target_offset",
    "token_weight",
    "unlikelihood",
    "z_loss",
    "hidden_term",
    "input_term",
)  # hooks that a table without a softmax does not have


class ClassScores(Criterion):
    """Cross-entropy of the class of each document. What an objective does to the table besides (a penalty, frozen rows) acts."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        if any(getattr(type(objective), hook) is not getattr(Objective, hook) for hook in OF_A_SOFTMAX):
            self._refuse()

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Raises UserError for an objective that changes the gradient of a softmax over the table."""
        if torch.is_grad_enabled() and self.objective.gate() is not None:
            self._refuse()
        scores = forward(*batch.inputs)[:, 0]  # documents x classes
        exact = torch.promote_types(scores.dtype, torch.float32)
        nll = nn.functional.cross_entropy(scores.to(exact), batch.targets[:, 0], reduction="sum")
        return SummedLoss(nll, nll.detach())

    def count(self, batch: Batch) -> Tensor:
        return torch.tensor(batch.targets.numel())

    def _refuse(self) -> None:
        name = type(self.objective).__module__.rpartition(".")[2]
        raise UserError(
            f"objective {name} acts on a softmax over the table, which a classifier of documents does not have; "
            "allowed: objectives that act on the table itself, such as mle, frage, cosreg"
        )
