"""What an objective may know about the text and the training before it starts."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Facts:
    """Of one text and one model; N types, rows of width d."""

    counts: Tensor  # N, int64: occurrences as a training target in the whole corpus
    rare: Tensor  # N, bool: the rare group of the declared frequency groups
    types: int  # ids from here on are fillers that no text uses
    specials: int  # the first ids: markers, never rare
    pad: int  # target id of padding, left out of every loss
    updates_per_epoch: int
    width: int  # d, of a row of the table
    label_smoothing: float = 0.0

    @property
    def used(self) -> Tensor:
        """N, bool: rows that text can use, without padding and fillers."""
        used = torch.arange(len(self.counts), device=self.counts.device) < self.types
        used[self.pad] = False
        return used


def facts(
    counts: Tensor,
    *,
    width: int,
    updates_per_epoch: int,
    rare: Tensor | None = None,
    rare_share: float = 0.2,
    types: int | None = None,
    specials: int = 0,
    pad: int = -100,
    label_smoothing: float = 0.0,
) -> Facts:
    """Facts from the counts of the training targets (N, int64, any order of ids).

    rare: N, bool, the rare group; without it the `rare_share` of types that occur least often (AGG section 3.1 takes 20 %), of
    which ids below `specials` are none. types: ids from there on are fillers; all are types without it. width: d. pad: the target
    id that marks no position. Raises ValueError on counts that are no vector.
    """
    if counts.dim() != 1:
        raise ValueError(f"counts has shape {tuple(counts.shape)}; expected one entry for each type")
    return Facts(
        counts=counts,
        rare=_least_frequent(counts, rare_share, specials) if rare is None else rare,
        types=len(counts) if types is None else types,
        specials=specials,
        pad=pad,
        updates_per_epoch=updates_per_epoch,
        width=width,
        label_smoothing=label_smoothing,
    )


def _least_frequent(counts: Tensor, share: float, specials: int) -> Tensor:
    rare = torch.zeros(len(counts), dtype=torch.bool, device=counts.device)
    by_frequency = counts.argsort(descending=True, stable=True)
    rare[by_frequency[round(len(counts) * (1 - share)) :]] = True
    rare[:specials] = False
    return rare
