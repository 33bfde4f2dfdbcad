"""Centring by frequency: the squared length of the mean of all target rows in the text is added to the loss.

Degenerate tables drift away from the origin together; this pulls the mean of what the text uses back: |sum over k of p_k w_k|^2,
with p_k the share of type k among the targets. An example of an objective of one's own; it is nobody's published method
(mu_loss.py, where every row weighs the same, is).
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": (1.0, ">= 0")}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float) -> None:
        super().__init__(facts)
        self.strength = strength
        self.register_buffer("share", facts.counts / facts.counts.sum(), persistent=False)

    def penalty(self, weight: Tensor) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        return self.strength * (self.share.to(exact) @ weight.to(exact)).square().sum()
