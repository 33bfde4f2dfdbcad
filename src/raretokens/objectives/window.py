"""Counts of the last updates, in two arrays that are allocated once.

Small tensors that live for an epoch, between large ones that come and go, would keep an allocator from giving anything back.
"""

from collections import deque

import torch
from torch import Tensor

SPARE = 1.25  # times what an epoch of updates like the first one takes


class Window:
    """Types and counts of the targets of each update, oldest first; a queue."""

    def __init__(self, updates: int) -> None:
        self.updates = updates  # that it is made for
        self.lengths: deque[int] = deque()  # types of each update in it
        self.start = self.end = 0
        self.types = self.counts = torch.empty(0, dtype=torch.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def push(self, types: Tensor, counts: Tensor) -> None:
        """Both int32, one entry for each type that the update has."""
        if self.end + len(types) > len(self.types):
            self._make_room(len(types), types.device)
        for array, values in ((self.types, types), (self.counts, counts)):
            array[self.end : self.end + len(values)] = values
        self.end += len(types)
        self.lengths.append(len(types))

    def pop(self) -> tuple[Tensor, Tensor]:
        """The oldest update's types and counts; they are overwritten by later updates."""
        first, self.start = self.start, self.start + self.lengths.popleft()
        return self.types[first : self.start], self.counts[first : self.start]

    def _make_room(self, needed: int, device: torch.device) -> None:
        """Move what is in it to the front; into larger arrays where it fills more than these can hold."""
        live = self.end - self.start
        size = len(self.types)
        if live + needed > size / SPARE:
            size = int(SPARE * max(needed * self.updates, SPARE * (live + needed)))
        for name in ("types", "counts"):
            old = getattr(self, name)
            new = old if size == len(old) else torch.empty(size, dtype=torch.int32, device=device)
            new[:live] = old[self.start : self.end].clone()
            setattr(self, name, new)
        self.start, self.end = 0, live

    def state(self) -> dict:
        inside = slice(self.start, self.end)
        return {
            "lengths": list(self.lengths),
            "types": self.types[inside].clone(),
            "counts": self.counts[inside].clone(),
        }

    def restore(self, state: dict) -> None:
        self.start = self.end = 0
        self.lengths.clear()
        for types, counts in zip(*(state[name].split(state["lengths"]) for name in ("types", "counts")), strict=True):
            self.push(types, counts)
