"""mu-centering (arXiv 2601.02031, output embedding centering): the embedding's mean row is taken off after each optimizer step.

The same vector is taken off every row, so the softmax is the same. With an untied output embedding and plain gradient descent it
is maximum likelihood. Otherwise it differs through the input side of a tied embedding, through Adam
(whose steps need not keep the centre) and through weight decay. The mean runs over rows that text can use: padding and fillers,
which the public code does not have, are left out.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS: dict = {}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts) -> None:
        super().__init__(facts)
        self.register_buffer("used", facts.used, persistent=False)

    @torch.no_grad()
    def end_update(self, weight: Tensor) -> None:
        exact = torch.promote_types(weight.dtype, torch.float32)
        weight.sub_(weight[self.used].to(exact).mean(0).to(weight.dtype))
