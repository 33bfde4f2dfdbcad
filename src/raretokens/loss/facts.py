"""What an objective may know about the text and the training before it starts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    markers: tuple[int, ...] = ()  # further ids that are never rare, wherever they stand

    @property
    def used(self) -> Tensor:
        """N, bool: rows that text can use, without padding and fillers."""
        used = self._ids < self.types
        if 0 <= self.pad < len(used):  # elsewhere it is the mark of targets alone, such as -100
            used[self.pad] = False
        return used

    @property
    def special(self) -> Tensor:
        """N, bool: markers."""
        special = self._ids < self.specials
        special[list(self.markers)] = True
        return special

    @property
    def _ids(self) -> Tensor:
        return torch.arange(len(self.counts), device=self.counts.device)


def facts(
    counts: Tensor,
    *,
    width: int,
    updates_per_epoch: int,
    rare: Tensor | None = None,
    rare_share: float = 0.2,
    types: int | None = None,
    specials: int = 0,
    markers: Iterable[int] = (),
    pad: int = -100,
    label_smoothing: float = 0.0,
) -> Facts:
    """Facts from the counts of the training targets (N, int64, any order of ids).

    rare: N, bool, the rare group; without it the `rare_share` of types that occur least often (AGG section 3.1 takes 20 %), of
    which ids below `specials` and `markers` are none. types: ids from there on are fillers, which are never rare; all are types
    without it. width: d. pad: the target id that marks no position. Raises ValueError on what does not fit.
    """
    if counts.dim() != 1:
        raise ValueError(f"counts has shape {tuple(counts.shape)}; expected one entry for each type")
    types = len(counts) if types is None else types
    known = Facts(
        counts, counts, types, specials, pad, updates_per_epoch, width, label_smoothing, tuple(sorted(markers))
    )
    _check(known, rare, rare_share)
    return replace(known, rare=_least_frequent(known, rare_share) if rare is None else rare)


def _check(known: Facts, rare: Tensor | None, share: float) -> None:
    n, marked = len(known.counts), (0, *known.markers)
    rules = (
        ("counts", "of types", n > 0 and not (known.counts < 0).any(), "at least one, none negative"),
        (
            "rare",
            rare is not None and tuple(rare.shape),
            rare is None or len(rare) == n,
            f"one entry for each of {n} types",
        ),
        ("rare_share", share, 0 <= share <= 1, "0 to 1"),
        ("types", known.types, 0 < known.types <= n, f"1 to {n}"),
        ("specials", known.specials, 0 <= known.specials <= known.types, f"0 to {known.types}"),
        ("markers", known.markers, min(marked) >= 0 and max(marked) < n, f"ids in 0..{n - 1}"),
        ("updates_per_epoch", known.updates_per_epoch, known.updates_per_epoch > 0, "1 or more"),
        ("width", known.width, known.width > 0, "1 or more"),
        ("label_smoothing", known.label_smoothing, 0 <= known.label_smoothing < 1, "0 to less than 1"),
    )
    for name, value, fits, allowed in rules:
        if not fits:
            raise ValueError(f"facts: {name} {value} is not allowed: {allowed}")


def _least_frequent(known: Facts, share: float) -> Tensor:
    """The rare group; of types that text can use alone where there are fillers."""
    rare = torch.zeros(len(known.counts), dtype=torch.bool, device=known.counts.device)
    by_frequency = known.counts[: known.types].argsort(descending=True, stable=True)
    rare[by_frequency[round(known.types * (1 - share)) :]] = True
    return rare & ~known.special
