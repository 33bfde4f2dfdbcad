"""mu-loss adds the squared norm of the mean embedding row to the loss (arXiv 2601.02031, output embedding centering).

    penalty = strength * |(1/N) * sum over k of w_k|^2

The penalty is added once per training step. The mean runs over rows that text can use. It excludes padding and fillers, which
the public code does not have. The mean row adds the same number to all logits, so the softmax ignores it. The penalty only
removes the drift of the mean.
"""

from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": (1e-4, ">= 0")}


class Objective(objective.RowsObjective):
    def penalty(self, weight: Tensor) -> Tensor:
        return self.strength * self.rows(weight).mean(0).square().sum()
