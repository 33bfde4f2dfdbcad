"""Soft-capping bounds the logits: softcap * tanh(logit / softcap), in training and in prediction (Gemma 2, arXiv 2408.00118).

It is the baseline of arXiv 2601.02031 that changes the model instead of the loss. The default is the bound of Gemma 2; the public
code of that paper, as of January 2026, has no soft-cap. A run of the pipeline also predicts with the bound. In a training loop of
your own, the model must cap its logits itself, as Gemma 2 does; any objective then reads the bound from the model's head.
"""

from typing import Any

from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.terms import PLAIN, Head, SummedLoss

OPTIONS = {"softcap": (30.0, "> 0")}
TASKS = ("lm",)  # whose predictions have the bound


class Objective(objective.Objective):
    def loss(self, hidden: Tensor, weight: Tensor, targets: Tensor, *, head: Head = PLAIN, **more: Any) -> SummedLoss:
        """Return the loss with capped logits, also without gradients. Raises ValueError if the head has a soft-cap."""
        if head.softcap is not None:
            raise ValueError(f"{self.name}: the head has a soft-cap of {head.softcap}; allowed: a head without one")
        return super().loss(hidden, weight, targets, head=head._replace(softcap=self.softcap), **more)
