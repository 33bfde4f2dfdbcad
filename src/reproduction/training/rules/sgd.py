"""SGD at a constant learning rate, with weight decay as part of the gradient."""

from typing import Any

import torch

from reproduction.training.rule import Rule, without_own_optimizer

OPTIONS = {
    "clip": 0.0,  # largest norm of all gradients together; 0: no clipping
    "by_length": False,  # scale the learning rate by the step's targets divided by tokens_per_step
}


class SGD(Rule):
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        without_own_optimizer(self.objective, self.training.rule.name)
        return torch.optim.SGD(groups, lr=0.0, weight_decay=self.training.weight_decay)

    def rate(self, step: int, targets: int) -> float:
        share = targets / self.training.tokens_per_step if self.options["by_length"] else 1.0
        return self.training.peak_lr * share

    def step(self, step: int, targets: int) -> float:
        clip: Any = self.options["clip"]
        if clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        return super().step(step, targets)


RULE = SGD
