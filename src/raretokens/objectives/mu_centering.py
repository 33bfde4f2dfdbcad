"""mu-centering subtracts the mean row from the embedding matrix after each optimizer step (arXiv 2601.02031).

The method is output embedding centering. Subtracting the same vector from every row does not change the softmax. With an untied
output embedding and plain gradient descent, mu-centering therefore equals maximum likelihood. It differs through a tied input
embedding, through weight decay, and through Adam, whose steps need not preserve the mean. The mean runs over rows that text can
use. It excludes padding and fillers, which the public code does not have.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS: dict = {}


class Objective(objective.RowsObjective):
    @torch.no_grad()
    def end_step(self, weight: Tensor) -> None:
        weight.sub_(self.rows(weight).mean(0).to(weight.dtype))
