"""Counts of the last updates, in one ring that is allocated once.

Small tensors that live for an epoch, between large ones that come and go, would keep an allocator from giving anything back.
"""

from collections import deque

import torch
from torch import Tensor

from raretokens.loss.facts import Facts

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
