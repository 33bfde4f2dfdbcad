"""Base class of objectives whose loss of a position is a function of all its logits, such as focal loss."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from raretokens.loss.objective import Objective
from raretokens.loss.terms import PLAIN, Head, SummedLoss

CHUNK = 1024  # positions whose logits are in memory together


class LogitsObjective(Objective, ABC):
    """Objective with a loss of its own. Subclasses override `position_losses`.

    The hooks gate, target_offset, token_weight, unlikelihood and z_loss are of the base class' loss and have no effect here.
    Without gradients (validation), the loss is the plain likelihood.
    """

    @abstractmethod
    def position_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each position.

        Args:
            logits: M x N, at least float32, with bias, scale and soft-cap of the model.
            targets: M, without padding.
        """

    def loss(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, *, head: Head = PLAIN, rows: Tensor | None = None, **looked_up: Any
    ) -> SummedLoss:
        """Return the summed loss of a micro-batch. The backward pass computes the logits again, chunk by chunk.

        Raises:
            ValueError: if `position_losses` returns another shape than that of its targets.
        """
        if not torch.is_grad_enabled():
            return super().loss(hidden, weight, targets, head=head, rows=rows)
        flat, ids = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
        rows = (ids != self.facts.pad).nonzero().squeeze(1) if rows is None else rows
        parts = [
            checkpoint(self._chunk, flat[part], weight, ids[part], head, use_reentrant=False)
            for part in rows.split(CHUNK)
        ]
        embedding = looked_up.get("input_embedding")
        terms = (
            self.hidden_term(hidden, targets),
            self.input_term(weight if embedding is None else embedding, looked_up.get("inputs", ())),
        )
        loss, nll = (sum(sums) for sums in zip(*parts, strict=True))
        return SummedLoss(sum((term for term in terms if term is not None), loss), nll)

    def _chunk(self, hidden: Tensor, weight: Tensor, targets: Tensor, head: Head) -> tuple[Tensor, Tensor]:
        """Return the sums of losses and of -log p over the positions of a chunk."""
        logits = head_logits(hidden, weight, head)
        losses = self.position_losses(logits, targets)
        if losses.shape != targets.shape:
            expected = f"expected one loss for each of {len(targets)} positions"
            raise ValueError(f"{self.name}: position_losses returned shape {tuple(losses.shape)}; {expected}")
        return losses.sum(), cross_entropy(logits.detach(), targets, reduction="sum")


def head_logits(hidden: Tensor, weight: Tensor, head: Head) -> Tensor:
    """Return the logits (... x N, at least float32) of hidden states (... x d), with bias, scale and soft-cap of the head."""
    products = hidden @ weight.T
    logits = products.to(torch.promote_types(products.dtype, torch.float32))
    if head.bias is not None:
        logits = logits + head.bias
    logits = logits * head.scale
    return logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)
