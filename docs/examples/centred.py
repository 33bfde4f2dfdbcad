"""Centring by frequency: add to the loss the squared length of the mean row, weighted by the targets of the text.

The rows of a degenerate embedding matrix drift away from the origin together. This penalty pulls their mean back:
|sum over k of p_k w_k|^2, where p_k is the share of type k among the targets. Example of an objective, not a published method.
The published mu_loss.py gives every row the same weight.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": (1.0, ">= 0")}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, **options: float) -> None:
        super().__init__(facts, **options)
        self.register_buffer("share", facts.counts / facts.counts.sum(), persistent=False)

    def penalty(self, weight: Tensor) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        return self.strength * (self.share.to(exact) @ weight.to(exact)).square().sum()
