"""AGG, adaptive gradient gating (Yu et al., 2022, section 4): rare types and their gates follow the counts of recent updates.

A token type is rare while its mean number of appearances as a target, over the last K updates (one epoch), is below alpha.
With a_k the appearances in that window and u the update, the gates of rare types are

    A_k = min(a_k / min(u, K), 1)                           for positions whose target is not rare (g1, Eq. 7)
    B_k = min(a_k / (mean of a over the rare types), 1)     for positions whose target is rare (g2, Eq. 8)

As in the public code, the window includes the current update and is divided by min(u, K). Unlike there, the counts are those of
the whole update (every micro-batch and process), they are in the checkpoint, and validation does not touch them.

UL + AGG (table 4) is one adaptive gate on the gradient of likelihood and unlikelihood together. No formula and no code is
public; gating d(NLL + UL)/dz is our interpretation.

The counts of the last updates lie in one ring that is allocated once: small tensors that live for an epoch, between large ones
that come and go, would keep an allocator from giving memory back.
"""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.facts import Facts
from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import PLAIN, Gate, Head, SummedLoss, Unlikelihood
from raretokens.objectives import rarity

SPARE = 1.05  # times what an epoch is expected to take: updates differ
LARGER = 1.25  # times what is in it, where that is more than was expected


class Window:
    """Types and counts of the targets of each update, oldest first: a queue."""

    def __init__(self, facts: Facts) -> None:
        self.size = _expected(facts)
        self.lengths: deque[int] = deque()  # types of each update in it
        self.start = self.live = 0  # of the ring: where the oldest entry is, and how many there are
        self.ring = torch.empty(2, 0, dtype=torch.int32)  # types and counts

    def __len__(self) -> int:
        return len(self.lengths)

    def push(self, types: Tensor, counts: Tensor) -> None:
        """Both int32, one entry for each type that the update has."""
        if self.live + len(types) > self.ring.shape[1]:
            self._make_room(self.live + len(types), types.device)
        new, first = torch.stack((types, counts)), self.start + self.live
        for here, there in self._parts(first, len(types)):
            self.ring[:, here] = new[:, there]
        self.live += len(types)
        self.lengths.append(len(types))

    def pop(self) -> tuple[Tensor, Tensor]:
        """The oldest update's types and counts."""
        length = self.lengths.popleft()
        oldest = self._entries(self.start, length)
        self.start, self.live = (self.start + length) % max(self.ring.shape[1], 1), self.live - length
        return oldest[0], oldest[1]

    def _parts(self, first: int, length: int) -> list[tuple[slice, slice]]:
        """Where so many entries lie in the ring, and which of them: one piece, or two where they pass its end."""
        size = max(self.ring.shape[1], 1)
        first %= size
        until_end = min(length, size - first)
        return [
            (slice(first, first + until_end), slice(until_end)),
            (slice(length - until_end), slice(until_end, length)),
        ]

    def _entries(self, first: int, length: int) -> Tensor:
        return torch.cat([self.ring[:, here] for here, _ in self._parts(first, length)], dim=1)

    def _make_room(self, needed: int, device: torch.device) -> None:
        """A ring of the size that was expected; of a larger one, where that was too small."""
        size = max(self.size, 0 if needed <= self.size else int(LARGER * needed))
        larger = torch.empty(2, size, dtype=torch.int32, device=device)
        larger[:, : self.live] = self._entries(self.start, self.live)
        self.ring, self.start = larger, 0

    def state(self) -> dict:
        types, counts = self._entries(self.start, self.live)
        return {"lengths": list(self.lengths), "types": types, "counts": counts}

    def restore(self, state: dict, device: torch.device) -> None:
        """device: of the counts that come next; a state is read into the processor's memory."""
        self.start = self.live = 0
        self.lengths.clear()
        self.ring = self.ring.to(device)
        parts = (state[name].to(device).split(state["lengths"]) for name in ("types", "counts"))
        for types, counts in zip(*parts, strict=True):
            self.push(types, counts)


def _expected(facts: Facts) -> int:
    """Entries of an epoch and one update, were tokens drawn at random by their frequency; text repeats itself and has fewer."""
    updates = facts.updates_per_epoch
    types = -torch.expm1(-facts.counts.double() / updates).sum()
    return int(SPARE * (updates + 1) * float(types)) + len(facts.counts)


OPTIONS = {
    "alpha": (0.03, ">= 0"),
    "alpha_scale": (1.0, "> 0"),  # alpha counts appearances per update: an update of half the tokens wants half of it
    "g1": True,
    "g2": True,
    "static": False,  # the rare group stays as it is after one epoch,
    "static_counts": True,  # and so do the counts behind its gates; False: only the group does
    "include_current": True,  # the window holds the current update (public code); False: only those before it (paper)
    "full_divisor": False,  # in the first epoch counts are divided by the updates seen (public code); True: by K (paper)
    "unmasked_pad": False,  # True, as the public code: padded positions train the states, not the embedding matrix, to emit <pad>
    "alpha_ul": (0.0, ">= 0"),  # weight of token-level unlikelihood beside the likelihood
    "flatten_batch": False,  # of unlikelihood, as in objectives/ul.py
}
VARIANTS = {"agg": {}, "ul_agg": {"alpha_ul": 1.0}}  # tables 9 and 10 are options of the first


class Objective(objective.Objective):
    def __init__(
        self,
        facts: objective.Facts,
        alpha: float,
        alpha_scale: float,
        g1: bool,
        g2: bool,
        static: bool,
        static_counts: bool,
        include_current: bool,
        full_divisor: bool,
        unmasked_pad: bool,
        alpha_ul: float,
        flatten_batch: bool,
    ) -> None:
        super().__init__(facts)
        if unmasked_pad and not 0 <= facts.pad < len(facts.counts):
            raise ValueError(f"unmasked_pad needs padding that is a row of the embedding matrix; pad is {facts.pad}")
        self.alpha, self.scale, self.threshold = alpha, alpha_scale, alpha * alpha_scale
        self.g1, self.g2, self.static, self.static_counts = g1, g2, static, static_counts
        self.include_current, self.full_divisor, self.unmasked_pad = include_current, full_divisor, unmasked_pad
        self.settings = Unlikelihood(alpha_ul, flatten_batch) if alpha_ul else None
        self.update = 0
        self.window = Window(facts)
        self.pending: tuple[Tensor, Tensor] | None = None
        ones = torch.ones(len(facts.counts), device=facts.counts.device)
        self.register_buffer("appearances", torch.zeros_like(facts.counts, dtype=torch.int32))
        self.register_buffer("rare", torch.zeros_like(facts.rare))  # N: the rare types of this update
        self.register_buffer("special", facts.special, persistent=False)
        self.register_buffer("towards_nonrare", ones, persistent=False)  # N: A and B follow from the other two
        self.register_buffer("towards_rare", ones, persistent=False)

    def begin_update(self, counts: Tensor) -> None:
        """Once an update everything that its gate needs: with many micro-batches the gate is asked for often."""
        self.update += 1
        epoch = self.facts.updates_per_epoch
        is_fixed = self.static and self.update > (epoch if self.include_current else epoch + 1)
        if not (is_fixed and self.static_counts):
            self._count(counts)
        mean = self.appearances / (epoch if self.full_divisor else max(len(self.window), 1))
        if not is_fixed:
            self.rare = mean < self.threshold
            self.rare[self.special] = False
        if self.g1:
            self.towards_nonrare = torch.where(self.rare, mean.clamp(max=1.0), 1.0)
        if self.g2:
            average = (self.appearances * self.rare).sum() / self.rare.sum().clamp(min=1)
            self.towards_rare = torch.where(self.rare, (self.appearances / (average + 1e-7)).clamp(max=1.0), 1.0)

    def _count(self, counts: Tensor) -> None:
        types = counts.nonzero().squeeze(1)
        entry = types.to(torch.int32), counts[types].to(torch.int32)
        if not self.include_current:
            entry, self.pending = self.pending, entry
        if entry is None:
            return
        self.window.push(*entry)
        self.appearances[entry[0].long()] += entry[1]
        if len(self.window) > self.facts.updates_per_epoch:
            types, seen = self.window.pop()
            self.appearances[types.long()] -= seen

    def gate(self) -> Gate:
        return Gate(self.rare, self.towards_nonrare, self.towards_rare)

    def unlikelihood(self) -> Unlikelihood | None:
        return self.settings

    def loss(self, hidden: Tensor, weight: Tensor, targets: Tensor, *, head: Head = PLAIN, **inputs: Any) -> SummedLoss:
        summed = super().loss(hidden, weight, targets, head=head, **inputs)
        if not (self.unmasked_pad and torch.is_grad_enabled()):
            return summed
        padded = targets == self.facts.pad
        extra = gated_linear_cross_entropy(
            hidden[padded],
            weight.detach(),
            targets[padded],
            head=head if head.bias is None else head._replace(bias=head.bias.detach()),
            label_smoothing=self.facts.label_smoothing,
        )
        return SummedLoss(summed.loss + extra.loss, summed.nll)

    def about(self) -> dict[str, float]:
        types, tokens = self._share()
        return {"rare_types": types, "rare_tokens": tokens}

    def remarks(self) -> list[str]:
        """alpha counts appearances per update, so another text or batch wants another one."""
        types, tokens = self._share()
        means = f"alpha {self.alpha:g} x {self.scale:g}: {types:.2%} of the types are rare, {tokens:.2%} of the target tokens"
        low, high = rarity.SENSIBLE
        if low <= types <= high:
            return [means]
        usual = rarity.alpha_for(self.facts, rarity.USUAL) / self.scale
        return [f"warning: {means}; alpha {usual:.3g} would make {rarity.USUAL:.0%} of the types rare"]

    def _share(self) -> rarity.Share:
        return rarity.rare_share(*rarity.seen(self.facts), self.threshold, rarity.never(self.facts))

    def report(self) -> dict[str, float]:
        return {"rare_group_size": int(self.rare.sum())}

    def get_extra_state(self) -> dict:
        return {"update": self.update, "window": self.window.state(), "pending": self.pending}

    def set_extra_state(self, state: dict) -> None:
        device = self.appearances.device
        self.update, pending = state["update"], state["pending"]
        self.pending = pending and (pending[0].to(device), pending[1].to(device))
        self.window.restore(state["window"], device)
