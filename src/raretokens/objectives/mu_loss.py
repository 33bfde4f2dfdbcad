"""mu-loss (arXiv 2601.02031, output embedding centering): the squared length of the embedding's mean row is added to the loss.

    penalty = strength * |(1/N) * sum over k of w_k|^2

once an update. The mean runs over rows that text can use, without padding and fillers, which the public code has none of. The
softmax does not see the mean row (it adds the same number to all logits): only the drift is taken away.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": (1e-4, ">= 0")}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float) -> None:
        super().__init__(facts)
        self.strength = strength
        self.register_buffer("used", facts.used, persistent=False)

    def penalty(self, weight: Tensor) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        return self.strength * weight[self.used].to(exact).mean(0).square().sum()
