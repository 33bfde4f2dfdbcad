"""SGD with a learning rate that falls linearly towards zero over the training (word2vec); gradients may be sparse.

A training step combines the steps of many minibatches: their gradients are computed at the same weights and added up.
"""

import torch

from raretokens.errors import UserError
from reproduction.training.rule import Rule, without_own_optimizer

OPTIONS = {
    "batch": 1,  # targets of a minibatch; the learning rate applies to its mean loss
    "least": 0.0001,  # lower bound of the learning rate divided by peak_lr
}


class LinearSGD(Rule):
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        without_own_optimizer(self.objective, self.training.rule.name)
        if self.training.weight_decay:
            rate = self.training.weight_decay
            raise UserError(f"training.weight_decay: {rate}; linear_sgd moves only rows that it has read; allowed: 0.0")
        return torch.optim.SGD(groups, lr=0.0)

    def rate(self, step: int, targets: int) -> float:
        """Return the learning rate for the mean loss over the step's targets: the sum of the rates of its minibatches."""
        left = max(1 - (step - 1) / self.training.steps, self.options["least"])
        return self.training.peak_lr * left * targets / self.options["batch"]


RULE = LinearSGD
