"""Adversarial MLE (Wang, Gong and Liu, 2019): the worst small change of the target's output vector, in closed form.

The target's logit becomes w_y . h - e |h| with e = a |w_y| where cos(h, w_y) > 0, else 0. e and the direction are constants, so
the extra term sends a gradient to h alone. Each position has its own direction (the released code shares the last position's
among those with the same target).
"""

from torch import Tensor
from torch.nn.functional import normalize

from raretokens.training import objective

OPTIONS = {"a": 0.005}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, a: float) -> None:
        super().__init__(facts)
        self.a = a

    def target_offset(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        hidden = hidden.to(weight.dtype)
        fixed, rows = hidden.detach(), weight.detach()[targets]
        size = self.a * rows.norm(dim=-1) * ((fixed * rows).sum(-1) > 0)
        return -size * (hidden * normalize(fixed, dim=-1)).sum(-1)
