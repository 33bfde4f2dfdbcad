"""Dispersion loss spreads the directions of the final hidden states within each sequence (arXiv 2602.00217, ICML 2026).

    L = log mean over i != j of exp(-angle(h_i, h_j) / (pi * temperature))

The loss of a sequence is added once for each of its targets, with weight `strength`. So it is a mean over sequences, weighted by
their targets. The form is "angular spread" of the public code (ChenLiu-1996/LM-Dispersion, June 2026), with the values of its
example for GPT-2. The paper's other forms are ablations and are not implemented. Two details differ. The paper averages over the
outputs of all layers, but an objective sees the last layer only (`last` in the code). The code draws at most 256 positions of a
sequence at random. Here they are evenly spaced, so they do not depend on seed, micro-batch or process.

Close to cosine 1 and -1 the angle has no finite gradient. Cosines above 1 - `margin` count as 1 - `margin` but keep the slope of
the angle there, as in the code, and those below -1 + `margin` likewise. A micro-batch needs `positions`^2 numbers for each
sequence, and sequences with fewer than two targets have no loss.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from raretokens.loss import objective

OPTIONS = {"strength": (0.1, ">= 0"), "temperature": (1.0, "> 0"), "margin": (0.1, "> 0", "< 1"), "positions": (256, ">= 2")}


class Objective(objective.Objective):
    def hidden_term(self, hidden: Tensor, targets: Tensor) -> Tensor:
        kept = (targets != self.facts.pad).reshape(-1, targets.shape[-1])
        states, chosen = _evenly_spaced(hidden.reshape(*kept.shape, -1), kept, self.positions)
        with torch.autocast(hidden.device.type, enabled=False):
            unit = normalize(states.to(torch.promote_types(states.dtype, torch.float32)), dim=-1, eps=1e-8)
            distance = _bounded(unit @ unit.mT, 1 - self.margin).arccos() / math.pi
        is_pair = (chosen[:, :, None] & chosen[:, None, :]).triu(1)
        pairs = is_pair.sum((1, 2))
        # A sequence without pairs gets one here, because the gradient of an empty logsumexp is NaN.
        exponent = (-distance / self.temperature).masked_fill(~(is_pair | (pairs == 0)[:, None, None]), -math.inf)
        spread = exponent.logsumexp((1, 2)) - pairs.clamp(min=1).log()
        return self.strength * (spread * kept.sum(1)).masked_fill(pairs == 0, 0.0).sum()


def _evenly_spaced(hidden: Tensor, kept: Tensor, positions: int) -> tuple[Tensor, Tensor]:
    """Return at most `positions` kept states of each sequence (sequences x positions x d), and which of them are kept.

    Of n kept states, those of ranks ceil(k n / positions) are chosen. A GPU need not be waited for.
    """
    if kept.shape[1] <= positions:
        return hidden, kept
    rank, number = kept.cumsum(1) - 1, kept.sum(1, keepdim=True)
    chosen = kept & (rank * positions % number.clamp(min=1) < positions)
    first = chosen.long().argsort(dim=1, descending=True, stable=True)[:, :positions]
    return hidden.take_along_dim(first[..., None], 1), chosen.take_along_dim(first, 1)


def _bounded(cosine: Tensor, bound: float) -> Tensor:
    """Return cosines clipped to -bound..bound, with the gradient of those that are not clipped."""
    return cosine.detach().clamp(-bound, bound) + (cosine - cosine.detach())
