"""Centring: the squared length of the table's mean row is added to the loss. An example of an objective of one's own.

Degenerate tables drift away from the origin together; this pulls their mean back. It is nobody's published method.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": 1.0}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float) -> None:
        super().__init__(facts)
        self.strength = strength
        self.register_buffer("used", facts.used, persistent=False)

    def penalty(self, weight: Tensor) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        return self.strength * weight[self.used].to(exact).mean(0).square().sum()
