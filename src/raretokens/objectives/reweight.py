"""Reweighting multiplies the loss of each position by the reciprocal frequency of its target (FRAGE table 10).

omega_k = (mean count of the types that occur) / c_k, so the mean weight over the corpus is 1. The paper gives no constant.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS: dict = {}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts) -> None:
        super().__init__(facts)
        counts = facts.counts.double()
        mean = counts.sum() / (counts > 0).sum()
        self.register_buffer(
            "omega", torch.where(counts > 0, mean / counts.clamp(min=1), 1.0).to(torch.get_default_dtype()), persistent=False
        )

    def token_weight(self) -> Tensor:
        return self.omega
