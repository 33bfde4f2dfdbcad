"""Adversarial MLE (Wang, Gong and Liu, 2019): the worst small change of the target's output vector, in closed form.

The target's logit becomes w_y . h - e |h| with e = a |w_y| where cos(h, w_y) > 0, else 0. e and the direction are constants, so
the extra term sends a gradient to h alone. Each position has its own direction. The released code keeps them by target, so that
positions of a batch with the same target share those of the last one: `shared_direction`.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from raretokens.loss import objective

OPTIONS = {"a": (0.005, ">= 0"), "shared_direction": False}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, a: float, shared_direction: bool) -> None:
        super().__init__(facts)
        self.a, self.shared_direction = a, shared_direction

    def target_offset(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        hidden, real = hidden.to(weight.dtype), targets != self.facts.pad
        targets = targets.masked_fill(~real, 0)  # padding, such as -100, need not be a row; its offsets are left out
        fixed, rows = hidden.detach(), weight.detach()[targets]
        if self.shared_direction:
            fixed = fixed.reshape(-1, fixed.shape[-1])[_last_alike(targets, real, len(weight))]
        size = self.a * rows.norm(dim=-1) * ((fixed * rows).sum(-1) > 0)
        return -size * (hidden * normalize(fixed, dim=-1)).sum(-1)


def _last_alike(targets: Tensor, real: Tensor, types: int) -> Tensor:
    """For each position the last real one, which is no padding, with the same target; counted through the batch."""
    flat = targets.reshape(-1)
    places = torch.arange(len(flat), device=flat.device).masked_fill(~real.reshape(-1), 0)
    last = torch.zeros(types, dtype=torch.int64, device=flat.device).scatter_reduce(0, flat, places, "amax")
    return last[targets]
