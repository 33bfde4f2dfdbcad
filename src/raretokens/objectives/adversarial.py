"""Adversarial MLE perturbs the target's output vector in the worst direction, in closed form (Wang, Gong and Liu, 2019).

The target's logit becomes w_y . h - e |h|, with e = a |w_y| if cos(h, w_y) > 0 and e = 0 otherwise. Because e and the direction
are constants, the extra term sends a gradient to h alone. By default each position has its own direction. The released code
stores directions by target, so all positions of a batch with the same target use the last position's direction. Set
`shared_direction` for that behaviour.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from raretokens.loss import objective

OPTIONS = {"a": (0.005, ">= 0"), "shared_direction": False}


class Objective(objective.Objective):
    def target_offset(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        hidden, real = hidden.to(weight.dtype), targets != self.facts.pad
        targets = targets.masked_fill(~real, 0)  # the padding id, such as -100, may be no row; its offsets are unused
        fixed, rows = hidden.detach(), weight.detach()[targets]
        if self.shared_direction:
            fixed = fixed.reshape(-1, fixed.shape[-1])[_last_alike(targets, real, len(weight))]
        size = self.a * rows.norm(dim=-1) * ((fixed * rows).sum(-1) > 0)
        return -size * (hidden * normalize(fixed, dim=-1)).sum(-1)


def _last_alike(targets: Tensor, real: Tensor, types: int) -> Tensor:
    """Return, for each position, the flat index of the last non-padding position of the batch with the same target."""
    flat = targets.reshape(-1)
    positions = torch.arange(len(flat), device=flat.device).masked_fill(~real.reshape(-1), 0)
    last = torch.zeros(types, dtype=torch.int64, device=flat.device).scatter_reduce(0, flat, positions, "amax")
    return last[targets]
