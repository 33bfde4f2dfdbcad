"""mu-centering (arXiv 2601.02031, output embedding centering): the embedding's mean row is taken off after each optimizer step.

The same vector is taken off every row, so no logit moves against another and the softmax is the same. With an output embedding of its
own and plain gradient descent it is maximum likelihood; otherwise it differs through the input side of a tied embedding, through Adam
(whose steps need not keep the centre) and through weight decay. The mean runs over rows that text can use, without padding and
fillers, which the public code has none of.
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
