"""MLE-CosReg adds the mean cosine similarity of all pairs of embedding rows to the loss (Gao et al., 2019, Eq. 6).

R = (1 / N^2) * sum over i != j of cos(w_i, w_j) = (|sum of unit rows|^2 - N) / N^2. Padding and filler rows are excluded.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"gamma": (1.0, ">= 0")}


class Objective(objective.RowsObjective):
    def penalty(self, weight: Tensor) -> Tensor:
        unit = torch.nn.functional.normalize(self.rows(weight), dim=1, eps=1e-8)
        n = len(unit)
        return self.gamma * (unit.sum(0).square().sum() - n) / n**2
