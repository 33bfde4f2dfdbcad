"""Adaptive gradient gating (AGG) scales the gradients that push rare embeddings away from hidden states (Yu et al., 2022).
`ul_agg` adds token-level unlikelihood.

The source is section 4 of the paper.
A token type is rare while its mean number of appearances as a target, over the last K training steps (one epoch), is below
alpha. With a_k the appearances in that window and u the number of the step, the gates of rare types are

    A_k = min(a_k / min(u, K), 1)                           for positions whose target is not rare (g1, Eq. 7)
    B_k = min(a_k / (mean of a over the rare types), 1)     for positions whose target is rare (g2, Eq. 8)

As in the public code, the window includes the current step, and counts are divided by min(u, K). Unlike in the public code,
counts cover the whole step (every micro-batch and process), are saved in the checkpoint, and ignore validation text.

UL + AGG (table 4) applies one adaptive gate to the joint gradient of likelihood and unlikelihood. Neither formula nor code is
public. Gating d(NLL + UL)/dz is our interpretation.

The counts of recent steps are stored in one preallocated ring buffer. Many small tensors that live for an epoch between large
short-lived ones would fragment the allocator's memory.
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

SPARE = 1.05  # ring capacity divided by the expected entries of an epoch, because steps differ
LARGER = 1.25  # new capacity divided by the needed entries, when the ring must grow
MAX_COUNT = 2**31 - 1  # of a type in one step, as the ring has 32 bits for it; the sum over a window may be larger


class Window:
    """Queue of the target types and their counts of each training step, oldest first."""

    def __init__(self, facts: Facts) -> None:
        self.size = _expected(facts)
        self.lengths: deque[int] = deque()  # number of types in each step of the window
        self.start = self.live = 0  # index of the oldest entry in the ring, and number of entries
        self.ring = torch.empty(2, 0, dtype=torch.int32)  # row 0: types, row 1: counts

    def __len__(self) -> int:
        return len(self.lengths)

    def push(self, types: Tensor, counts: Tensor) -> None:
        """Append a step: types and counts are int32, with one entry for each type among the step's targets."""
        if self.live + len(types) > self.ring.shape[1]:
            self._make_room(self.live + len(types), types.device)
        new, first = torch.stack((types, counts)), self.start + self.live
        for here, there in self._parts(first, len(types)):
            self.ring[:, here] = new[:, there]
        self.live += len(types)
        self.lengths.append(len(types))

    def pop(self) -> tuple[Tensor, Tensor]:
        """Remove the oldest step and return its types and counts."""
        length = self.lengths.popleft()
        oldest = self._entries(self.start, length)
        self.start, self.live = (self.start + length) % max(self.ring.shape[1], 1), self.live - length
        return oldest[0], oldest[1]

    def _parts(self, first: int, length: int) -> list[tuple[slice, slice]]:
        """Return (ring slice, entry slice) pairs for `length` entries from `first`; the second pair holds what wraps around."""
        size = max(self.ring.shape[1], 1)
        first %= size
        until_end = min(length, size - first)
        return [(slice(first, first + until_end), slice(until_end)), (slice(length - until_end), slice(until_end, length))]

    def _entries(self, first: int, length: int) -> Tensor:
        return torch.cat([self.ring[:, here] for here, _ in self._parts(first, length)], dim=1)

    def _make_room(self, needed: int, device: torch.device) -> None:
        """Allocate a ring of the expected capacity, or a larger one if `needed` entries exceed that capacity."""
        size = max(self.size, 0 if needed <= self.size else int(LARGER * needed))
        larger = torch.empty(2, size, dtype=torch.int32, device=device)
        larger[:, : self.live] = self._entries(self.start, self.live)
        self.ring, self.start = larger, 0

    def state(self) -> dict:
        types, counts = self._entries(self.start, self.live)
        return {"lengths": list(self.lengths), "types": types, "counts": counts}

    def restore(self, state: dict, device: torch.device) -> None:
        """Load what `state` returned. The state is read on the CPU; `device` is the device of the following counts."""
        self.start = self.live = 0
        self.lengths.clear()
        self.ring = self.ring.to(device)
        parts = (state[name].to(device).split(state["lengths"]) for name in ("types", "counts"))
        for types, counts in zip(*parts, strict=True):
            self.push(types, counts)


def _expected(facts: Facts) -> int:
    """Return an upper estimate of the entries of an epoch plus one step.

    The estimate assumes that tokens are sampled independently by frequency. Real text repeats itself and has fewer types a step.
    """
    steps = facts.steps_per_epoch
    types = -torch.expm1(-facts.counts.double() / steps).sum()
    return int(SPARE * (steps + 1) * float(types)) + len(facts.counts)


OPTIONS = {
    "alpha": (0.03, ">= 0"),
    "alpha_scale": (1.0, "> 0"),  # factor of alpha, which is per training step: steps with half the tokens need 0.5
    "g1": True,
    "g2": True,
    "static": False,  # True: the rare group is fixed after one epoch
    "static_counts": True,  # with static, the counts behind the gates are fixed too; False: only the group is fixed
    "include_current": True,  # the window includes the current step (public code); False: only earlier steps (paper)
    "full_divisor": False,  # in the first epoch counts are divided by the steps so far (public code); True: by K (paper)
    "unmasked_pad": False,  # True (public code): padded positions train the hidden states, not the embeddings, to emit <pad>
    "alpha_ul": (0.0, ">= 0"),  # weight of the token-level unlikelihood term
    "flatten_batch": False,  # option of unlikelihood, see objectives/ul.py
}
VARIANTS = {"agg": {}, "ul_agg": {"alpha_ul": 1.0}}  # tables 9 and 10 of the paper are options of agg


class Objective(objective.Objective):
    counts_on_host = True  # the number of types in a step is the size of a tensor

    def __init__(self, facts: Facts, **options: Any) -> None:
        super().__init__(facts, **options)
        if self.unmasked_pad and not 0 <= facts.pad < len(facts.counts):
            raise ValueError(f"unmasked_pad needs padding that is a row of the embedding matrix; pad is {facts.pad}")
        self.threshold = self.alpha * self.alpha_scale
        self.step = 0
        self.window = Window(facts)
        self.pending: tuple[Tensor, Tensor] | None = None
        ones = torch.ones(len(facts.counts), device=facts.counts.device)
        self.register_buffer("appearances", torch.zeros_like(facts.counts, dtype=torch.int64))
        self.register_buffer("rare", torch.zeros_like(facts.rare))  # N: the rare types of this step
        self.register_buffer("special", facts.special, persistent=False)
        self.register_buffer("towards_nonrare", ones, persistent=False)  # N: A and B follow from the first two buffers
        self.register_buffer("towards_rare", ones, persistent=False)

    def begin_step(self, counts: Tensor) -> None:
        """Compute the gate vectors once per training step, because every micro-batch uses them."""
        self.step += 1
        epoch = self.facts.steps_per_epoch
        is_fixed = self.static and self.step > (epoch if self.include_current else epoch + 1)
        if not (is_fixed and self.static_counts):
            self._count(counts)
        mean = self.appearances / (epoch if self.full_divisor else max(len(self.window), 1))
        if not is_fixed:
            self.rare = (mean < self.threshold) & ~self.special
        if self.g1:
            self.towards_nonrare = torch.where(self.rare, mean.clamp(max=1.0), 1.0)
        if self.g2:
            average = (self.appearances * self.rare).sum() / self.rare.sum().clamp(min=1)
            self.towards_rare = torch.where(self.rare, (self.appearances / (average + 1e-7)).clamp(max=1.0), 1.0)

    def _count(self, counts: Tensor) -> None:
        types, device = counts.nonzero().squeeze(1), self.appearances.device
        seen = counts[types]
        if len(seen) and int(seen.max()) > MAX_COUNT:
            raise ValueError(f"{int(seen.max())} targets of one type in a training step; allowed: {MAX_COUNT}")
        pair = types.to(torch.int32), seen.to(torch.int32)
        entry = pair[0].to(device, non_blocking=True), pair[1].to(device, non_blocking=True)
        if not self.include_current:
            entry, self.pending = self.pending, entry
        if entry is None:
            return
        self.window.push(*entry)
        self.appearances[entry[0].long()] += entry[1]
        if len(self.window) > self.facts.steps_per_epoch:
            types, seen = self.window.pop()
            self.appearances[types.long()] -= seen

    def gate(self) -> Gate:
        return Gate(self.rare, self.towards_nonrare, self.towards_rare)

    def unlikelihood(self) -> Unlikelihood | None:
        return Unlikelihood(self.alpha_ul, self.flatten_batch) if self.alpha_ul else None

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
        """Report the rare share, and warn if it is implausible: alpha is per training step, so it depends on text and batch."""
        types, tokens = self._share()
        means = f"{types:.2%} of the types are rare, {tokens:.2%} of the target tokens"
        means = f"alpha {self.alpha:g} x {self.alpha_scale:g}: {means}"
        low, high = rarity.SENSIBLE
        if low <= types <= high:
            return [means]
        usual = rarity.alpha_for(self.facts, rarity.USUAL) / self.alpha_scale
        return [f"warning: {means}; alpha {usual:.3g} would make {rarity.USUAL:.0%} of the types rare"]

    def _share(self) -> rarity.Share:
        return rarity.rare_share(*rarity.seen(self.facts), self.threshold, rarity.never(self.facts))

    def report(self) -> dict[str, float | Tensor]:
        return {"rare_group_size": self.rare.sum()}

    def get_extra_state(self) -> dict:
        return {"update": self.step, "window": self.window.state(), "pending": self.pending}

    def set_extra_state(self, state: dict) -> None:
        device = self.appearances.device
        self.step, pending = state["update"], state["pending"]
        self.pending = pending and (pending[0].to(device), pending[1].to(device))
        self.window.restore(state["window"], device)
