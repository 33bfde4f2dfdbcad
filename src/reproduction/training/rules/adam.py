"""AdamW (Adam with decoupled weight decay) at a constant learning rate. An objective may override the optimizer."""

import torch

from reproduction.training.rule import Rule

OPTIONS: dict = {}
EPSILON = 1e-8


class Adam(Rule):
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        recipe = self.training
        adam = {"betas": tuple(recipe.betas), "eps": EPSILON, "weight_decay": recipe.weight_decay}
        return self.objective.optimizer(groups, lr=0.0, **adam)


RULE = Adam
