"""Spectrum control (Wang et al., 2020). UNVERIFIED: only the abstract could be read; this is an operational form of our own.

The shape of the embedding's spectrum is drawn towards a slow decay, whatever the size of its numbers:

    penalty = strength * mean over k of (s_k / s_1 - k^(-decay))^2

The paper re-parameterises W = U diag(s) V^T with soft orthogonality of U and V; s taken from the embedding itself needs no such
terms.

The strength is the largest that does not cost likelihood. Validation NLL of base-spectrum of the demo, in nats: 4.776 without the
penalty; 4.776, 4.784 and 4.778 with strength 0.1, 0.3 and 1; 4.793, 4.810 and 4.863 with 3, 10 and 30. Another seed gives 4.806
without and 4.809 with 1. BLEU (5.4 to 5.9 up to strength 10, 4.1 and 4.2 of the other seed) follows the seed, not the penalty.
"""

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"strength": (1.0, ">= 0"), "decay": (0.3, ">= 0")}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float, decay: float) -> None:
        super().__init__(facts)
        self.strength = strength
        self.register_buffer("used", facts.used, persistent=False)
        ranks = torch.arange(1, facts.width + 1, dtype=torch.float64, device=facts.counts.device)
        self.register_buffer("prior", ranks**-decay, persistent=False)

    def penalty(self, weight: Tensor) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        rows = weight[self.used].to(exact)
        values = torch.linalg.eigvalsh(rows.T @ rows).clamp(min=1e-12).sqrt().flip(0)  # d, falling
        return self.strength * (values / values[0] - self.prior[: len(values)].to(exact)).square().mean()
