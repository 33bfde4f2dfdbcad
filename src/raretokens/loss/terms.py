"""Token-level unlikelihood (Welleck et al., 2020, Eq. 4) as a part of the gated cross-entropy's pass over the logits.

The candidates of position t are the earlier targets of its own sequence less its target, as a set:

    loss_t = alpha * sum over c in C_t of -log(max(1 - p_c, 1e-5)),   C_t = {y_1 .. y_(t-1)} without y_t

What a loss over positions and types is made of, beside hidden states, embedding matrix and targets.
The loss of skip-gram with negative sampling (Mikolov et al., 2013, equation 4).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-5  # 1 - p below this is cut off and has no gradient


@dataclass(frozen=True)
class Unlikelihood:
    """alpha: weight beside the likelihood. flatten_batch: candidates leak from sequence to sequence, as in the public code."""

    alpha: float = 1.0
    flatten_batch: bool = False


class Candidates:
    """Candidate sets of the positions of a batch, made for some rows at a time.

    A token is in the set of a position if its first occurrence in the sequence stands before it, so a set is a choice among the
    L positions of the sequence, and nothing of the size of the vocabulary is needed.
    """

    def __init__(self, unlikelihood: Unlikelihood, targets: Tensor, ignore_index: int) -> None:
        if targets.dim() != 2:
            raise ValueError(
                f"unlikelihood needs targets of sequences x positions; they have shape {tuple(targets.shape)}"
            )
        self.alpha = unlikelihood.alpha
        self.sequences = targets.reshape(1, -1) if unlikelihood.flatten_batch else targets
        ordered, places = self.sequences.sort(dim=1, stable=True)
        is_new = torch.ones_like(ordered, dtype=torch.bool)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        is_first = torch.zeros_like(is_new).scatter_(1, places, is_new)
        self.may = is_first & (self.sequences != ignore_index)
        self.places = torch.arange(targets.numel(), device=targets.device)

    def keep(self, kept: Tensor) -> "Candidates":
        self.places = self.places[kept]
        return self

    def of(self, rows: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Ids (0 where there is none) and whether they are candidates, rows x L each; column: rows x 1, the targets."""
        length = self.sequences.shape[1]
        sequence, place = self.places[rows] // length, self.places[rows] % length
        ids = self.sequences[sequence]
        before = torch.arange(length, device=rows.device) < place[:, None]
        chosen = before & self.may[sequence] & (ids != column)
        return ids.masked_fill(~chosen, 0), chosen

    def apply(
        self, softmax: Tensor, rows: Tensor, column: Tensor, share: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """The loss (rows x 1), and `share` of the softmax plus the loss's gradient in the logits (rows x N, in its place).

        With r_c = p_c / (1 - p_c) on candidates that are not cut off, the gradient is alpha * (r - p * sum of r).
        """
        ids, chosen = self.of(rows, column)
        p = softmax.gather(1, ids)
        rest = 1.0 - p
        loss = self.alpha * torch.where(chosen, -rest.clamp(min=SMALLEST).log(), 0.0).sum(1, keepdim=True)
        ratio = torch.where(chosen & (rest > SMALLEST), p / rest, 0.0)
        softmax.mul_(share - self.alpha * ratio.sum(1, keepdim=True)).scatter_add_(1, ids, self.alpha * ratio)
        return loss, softmax


class Gate(NamedTuple):
    """Gate of one update. A and B must be 1 outside the rare set."""

    rare: Tensor  # N, bool: the objective's rare types
    nonrare_targets: Tensor  # N, float: A, for positions whose target is not rare
    rare_targets: Tensor  # N, float: B, for positions whose target is rare


class Head(NamedTuple):
    """What a model makes of hidden embedding^T before the softmax: softcap * tanh(scale * (h W^T + bias) / softcap)."""

    bias: Tensor | None = None  # N
    scale: float = 1.0  # Cohere's logit_scale; 1 / logits_scaling of Granite
    softcap: float | None = None  # final_logit_softcapping of Gemma 2; None: without


PLAIN = Head()


class SummedLoss(NamedTuple):
    """Sums over the positions, natural logarithm; only `loss` carries a gradient."""

    loss: Tensor
    nll: Tensor  # plain negative log-likelihood: no smoothing, weight, offset, unlikelihood or other term


class Terms(NamedTuple):
    """Of the loss of a position; positions without padding are M."""

    gate: Gate | None
    head: Head
    offset: Tensor | None  # M
    token_weight: Tensor | None  # N
    candidates: Candidates | None
    smoothing: float
    z_loss: float


def negative_sampling(products: Tensor, pairs: Tensor, negatives: int) -> Tensor:
    """Sum over pairs of -log s(x) - (negatives / K) * sum over the K drawn words of log s(-x_k), with s the logistic function.

    products: blocks x positions x (C + K), of each word with the C around its block and the K words drawn for the block; pairs:
    blocks x positions x C, bool. Its mean over draws is that of `negatives` words drawn anew for each pair: a drawn word that
    happens to be the pair's own counts, as in the equation.
    """
    contexts = pairs.shape[2]
    samples = products.shape[2] - contexts
    repelled = softplus(products[..., contexts:]).sum(2) * pairs.sum(2) * (negatives / samples)
    return torch.where(pairs, softplus(-products[..., :contexts]), 0.0).sum() + repelled.sum()
