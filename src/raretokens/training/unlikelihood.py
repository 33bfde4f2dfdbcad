"""Token-level unlikelihood (Welleck et al., 2020, Eq. 4) as a part of the gated cross-entropy's pass over the logits.

The candidates of position t are the earlier targets of its own sequence less its target, as a set:

    loss_t = alpha * sum over c in C_t of -log(max(1 - p_c, 1e-5)),   C_t = {y_1 .. y_(t-1)} without y_t
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST = 1e-5  # 1 - p below this is cut off and has no gradient


@dataclass(frozen=True)
class Unlikelihood:
    """alpha: weight beside the likelihood. flatten_batch: candidates leak from sequence to sequence, as in the public code."""

    alpha: float = 1.0
    flatten_batch: bool = False


class Candidates:
    """Candidate sets of the positions of a batch, made for some rows at a time."""

    def __init__(self, unlikelihood: Unlikelihood, targets: Tensor, types: int, ignore_index: int) -> None:
        if targets.dim() != 2:
            raise ValueError(
                f"unlikelihood needs targets of sequences x positions; they have shape {tuple(targets.shape)}"
            )
        sequences = targets.reshape(1, -1) if unlikelihood.flatten_batch else targets
        self.alpha, self.types = unlikelihood.alpha, types
        # One column past the vocabulary takes what is no candidate: padding, and everything from the position on.
        self.sequences = sequences.masked_fill(sequences == ignore_index, types)
        self.places = torch.arange(targets.numel(), device=targets.device)

    def keep(self, kept: Tensor) -> "Candidates":
        self.places = self.places[kept]
        return self

    def mask(self, rows: Tensor, column: Tensor) -> Tensor:
        """rows x N, bool: the candidates of each row; column: rows x 1, the targets."""
        length = self.sequences.shape[1]
        sequence, place = self.places[rows] // length, self.places[rows] % length
        before = torch.arange(length, device=rows.device) < place[:, None]
        ids = torch.where(before, self.sequences[sequence], self.types)
        mask = torch.zeros(len(rows), self.types + 1, dtype=torch.bool, device=rows.device)
        mask.scatter_(1, ids, True)
        mask.scatter_(1, column, False)
        return mask[:, : self.types]

    def apply(self, softmax: Tensor, rows: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """The loss (rows x 1), and the softmax plus the loss's gradient in the logits (rows x N).

        With r_c = p_c / (1 - p_c) on candidates that are not cut off, the gradient is alpha * (r - p * sum of r).
        """
        mask = self.mask(rows, column)
        rest = 1.0 - softmax
        loss = self.alpha * torch.where(mask, -rest.clamp(min=SMALLEST).log(), 0.0).sum(1, keepdim=True)
        ratio = torch.where(mask & (rest > SMALLEST), softmax / rest, 0.0)
        return loss, softmax * (1.0 - self.alpha * ratio.sum(1, keepdim=True)) + self.alpha * ratio
