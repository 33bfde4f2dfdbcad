"""AGG: adaptive gradient gating (Yu et al., 2022, section 4).

A token type is rare while its mean number of appearances as a target, over the last K updates (one epoch), is below alpha.
With a_k the appearances in that window and u the update, the gates of rare types are

    A_k = a_k / min(u, K)                                   for positions whose target is not rare (g1, Eq. 7)
    B_k = min(a_k / (mean of a over the rare types), 1)     for positions whose target is rare (g2, Eq. 8)

The window includes the current update; its counts are those of the whole update (every micro-batch and process).
"""

from collections import deque

import torch
from torch import Tensor

from raretokens.training import objective
from raretokens.training.gated_cross_entropy import Gate

OPTIONS = {"alpha": 0.03, "alpha_scale": 1.0}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, alpha: float, alpha_scale: float) -> None:
        super().__init__(facts)
        self.threshold = alpha * alpha_scale
        self.register_buffer("appearances", torch.zeros_like(facts.counts, dtype=torch.int32))
        self.window: deque[tuple[Tensor, Tensor]] = deque()  # one (types, counts) an update, oldest first

    def begin_update(self, counts: Tensor) -> None:
        types = counts.nonzero().squeeze(1)
        entry = types.to(torch.int32), counts[types].to(torch.int32)
        self.window.append(entry)
        self.appearances[types] += entry[1]
        if len(self.window) > self.facts.updates_per_epoch:
            types, seen = self.window.popleft()
            self.appearances[types.long()] -= seen

    def rare(self) -> Tensor:
        """N, bool: the rare types of this update; special tokens never are."""
        rare = self.appearances < self.threshold * len(self.window)
        rare[: self.facts.specials] = False
        return rare

    def gate(self) -> Gate:
        rare = self.rare()
        seen = self.appearances[rare].float()
        towards_nonrare, towards_rare = torch.ones(2, len(rare), device=rare.device)
        towards_nonrare[rare] = seen / max(len(self.window), 1)
        towards_rare[rare] = (seen / (seen.mean() + 1e-7)).clamp(max=1.0)
        return Gate(rare, towards_nonrare, towards_rare)

    def report(self) -> dict[str, float]:
        return {"rare_group_size": int(self.rare().sum())}

    def get_extra_state(self) -> list[tuple[Tensor, Tensor]]:
        return list(self.window)

    def set_extra_state(self, state: list[tuple[Tensor, Tensor]]) -> None:
        self.window = deque(state)
