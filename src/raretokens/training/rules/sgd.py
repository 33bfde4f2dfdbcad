"""Plain gradient descent at a constant rate; weight decay is a part of the gradient."""

from typing import Any

import torch

from raretokens.training.rule import Rule, without_own_optimizer

OPTIONS = {
    "clip": 0.0,  # norm of all gradients together that is not exceeded; 0: none
    "by_length": False,  # an update of fewer targets than tokens_per_step has a rate as much smaller
}


class SGD(Rule):
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        without_own_optimizer(self.objective, self.training.rule.name)
        return torch.optim.SGD(groups, lr=0.0, weight_decay=self.training.weight_decay)

    def rate(self, update: int, targets: int) -> float:
        share = targets / self.training.tokens_per_step if self.options["by_length"] else 1.0
        return self.training.peak_lr * share

    def step(self, update: int, targets: int) -> float:
        clip: Any = self.options["clip"]
        if clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        return super().step(update, targets)


RULE = SGD
