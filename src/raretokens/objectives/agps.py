"""Adaptive gradient partial scaling (AGPS) scales the gradients of rare types that are no target in a step (Yu et al., 2021).

The source is section 3 and Algorithm 1. With c_k the count of type k as a target in the corpus, f1 = min(c / mu1, 1) and
f2 = min(c / mu2, 1). A rare type is gated if it is not among the targets of the whole training step (the set S):

    Eq. 15:       A_k = f1_k,   B_k = f2_k
    Algorithm 1:  A_k = f1_k,   B_k = f1_k + f2_k

The first loss of Algorithm 1 runs over all positions, so f1 acts on rare targets too.
"""

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.terms import Gate

OPTIONS = {
    "first_rare": (0, ">= 0"),  # frequency rank (from 0) of the most frequent rare type; 0: use the declared rare group
    "mu1": (1500.0, "> 0"),  # paper: 1500 for translation, 500 for language models
    "mu2": (400.0, "> 0"),  # paper: 400 for translation, 20 for language models
    "variant": ("eq15", "alg1"),
}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, first_rare: int, mu1: float, mu2: float, variant: str) -> None:
        super().__init__(facts)
        f1, f2 = (facts.counts.to(torch.get_default_dtype()).div(mu).clamp(max=1.0) for mu in (mu1, mu2))
        self.register_buffer("rare", facts.ranks >= first_rare if first_rare else facts.rare.clone(), persistent=False)
        self.register_buffer("f1", f1, persistent=False)
        self.register_buffer("f2", f2 if variant == "eq15" else f1 + f2, persistent=False)
        self.register_buffer("absent", torch.ones_like(self.rare), persistent=False)

    def remarks(self) -> list[str]:
        types = int(self.facts.used.sum())
        return [] if self.rare[self.facts.used].any() else [f"warning: none of the {types} types is rare: nothing is gated"]

    def begin_step(self, counts: Tensor) -> None:
        self.absent = counts == 0

    def gate(self) -> Gate:
        gated = self.rare & self.absent
        return Gate(self.rare, torch.where(gated, self.f1, 1.0), torch.where(gated, self.f2, 1.0))
