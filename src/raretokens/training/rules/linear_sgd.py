"""Plain gradient descent, its rate falling linearly to nothing over the training (word2vec); gradients may be sparse.

An update takes the steps of many minibatches at once: their gradients are taken at the same weights and added up.
"""

import torch

from raretokens.errors import UserError
from raretokens.training.rule import Rule, without_own_optimizer

OPTIONS = {
    "batch": 1,  # targets of a minibatch, whose mean loss the rate is of
    "least": 0.0001,  # share of the first rate below which it does not fall
}


class LinearSGD(Rule):
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        without_own_optimizer(self.objective, self.training.rule.name)
        if self.training.weight_decay:
            rate = self.training.weight_decay
            raise UserError(f"training.weight_decay: {rate}; linear_sgd moves only rows that it has read; allowed: 0.0")
        return torch.optim.SGD(groups, lr=0.0)

    def rate(self, update: int, targets: int) -> float:
        """Of the mean over the update's targets: as many minibatches' steps as it has."""
        left = max(1 - (update - 1) / self.training.steps, self.options["least"])
        return self.training.peak_lr * left * targets / self.options["batch"]


RULE = LinearSGD
