"""Adaptive gradient gating (Yu et al., 2022, section 4): rare types and their gates follow the counts of recent updates.

A token type is rare while its mean number of appearances as a target, over the last K updates (one epoch), is below alpha.
With a_k the appearances in that window and u the update, the gates of rare types are

    A_k = a_k / min(u, K)                                   for positions whose target is not rare (g1, Eq. 7)
    B_k = min(a_k / (mean of a over the rare types), 1)     for positions whose target is rare (g2, Eq. 8)

As in the public code, the window includes the current update and is divided by min(u, K). Unlike there, the counts are those of
the whole update (every micro-batch and process), they are in the checkpoint, and validation does not touch them.
"""

from collections import deque

import torch
from torch import Tensor

from raretokens.training.gated_cross_entropy import Gate
from raretokens.training.objective import Facts, Objective


class AdaptiveGating(Objective):
    """g1, g2: whether part (b) and part (c) are gated. static: the rare group and its counts stay as after one epoch.

    include_current: whether the window holds the current update (the public code) or only those before it (the paper's text).
    """

    def __init__(
        self,
        facts: Facts,
        alpha: float,
        alpha_scale: float = 1.0,
        g1: bool = True,
        g2: bool = True,
        static: bool = False,
        include_current: bool = True,
    ) -> None:
        super().__init__(facts)
        self.threshold = alpha * alpha_scale
        self.g1, self.g2, self.static, self.include_current = g1, g2, static, include_current
        self.register_buffer("appearances", torch.zeros_like(facts.counts, dtype=torch.int32))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.window: deque[tuple[Tensor, Tensor]] = deque()  # one (types, counts) an update, oldest first
        self.pending: tuple[Tensor, Tensor] | None = None

    def begin_update(self, counts: Tensor) -> None:
        self.updates += 1
        types = counts.nonzero().squeeze(1)
        entry = types.to(torch.int32), counts[types].to(torch.int32)
        if not self.include_current:
            entry, self.pending = self.pending, entry
        if entry is None or (self.static and self.updates > self.facts.updates_per_epoch):
            return
        self.window.append(entry)
        self.appearances[entry[0].long()] += entry[1]
        if len(self.window) > self.facts.updates_per_epoch:
            types, seen = self.window.popleft()
            self.appearances[types.long()] -= seen

    def rare(self) -> Tensor:
        """N, bool: the rare types of this update; special tokens never are."""
        rare = self.appearances < self.threshold * max(len(self.window), 1)
        rare[: self.facts.specials] = False
        return rare

    def gate(self) -> Gate:
        rare = self.rare()
        seen = self.appearances[rare].to(torch.get_default_dtype())
        towards_nonrare, towards_rare = torch.ones(2, len(rare), device=rare.device)
        if self.g1:
            towards_nonrare[rare] = seen / max(len(self.window), 1)
        if self.g2:
            towards_rare[rare] = (seen / (seen.mean() + 1e-7)).clamp(max=1.0)
        return Gate(rare, towards_nonrare, towards_rare)

    def report(self) -> dict[str, float]:
        return {"rare_group_size": int(self.rare().sum())}

    def get_extra_state(self) -> dict:
        return {"window": list(self.window), "pending": self.pending}

    def set_extra_state(self, state: dict) -> None:
        self.window, self.pending = deque(state["window"]), state["pending"]
