"""Terms of the loss: gate, output head, token-level unlikelihood, and skip-gram's negative sampling.

Unlikelihood (Welleck et al., 2020, Eq. 4) is computed in the gated cross-entropy's pass over the logits. The candidates of
position t are the set of earlier targets of its own sequence, without its own target:

    loss_t = alpha * sum over c in C_t of -log(max(1 - p_c, 1e-5)),   C_t = {y_1 .. y_(t-1)} without y_t

The loss of skip-gram with negative sampling follows Mikolov et al. (2013, equation 4).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

SMALLEST = 1e-5  # lower bound of 1 - p; clamped values have no gradient


@dataclass(frozen=True)
class Unlikelihood:
    """Settings of unlikelihood.

    alpha: weight of the term. flatten_batch: whether candidates also come from earlier sequences, as in the public code.
    """

    alpha: float = 1.0
    flatten_batch: bool = False


class Candidates:
    """Candidate sets of the positions of a batch, computed for some rows at a time.

    A token is a candidate of a position if the token's first occurrence in the sequence comes earlier. A set is therefore a
    mask over the L positions of the sequence, and no tensor has the size of the vocabulary.
    """

    def __init__(self, unlikelihood: Unlikelihood, targets: Tensor, ignore_index: int) -> None:
        if targets.dim() != 2:
            raise ValueError(f"unlikelihood needs targets of sequences x positions; they have shape {tuple(targets.shape)}")
        self.alpha = unlikelihood.alpha
        self.sequences = targets.reshape(1, -1) if unlikelihood.flatten_batch else targets
        ordered, positions = self.sequences.sort(dim=1, stable=True)
        is_new = torch.ones_like(ordered, dtype=torch.bool)
        is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        is_first = torch.zeros_like(is_new).scatter_(1, positions, is_new)
        self.may = is_first & (self.sequences != ignore_index)
        self.positions = torch.arange(targets.numel(), device=targets.device)

    def keep(self, kept: Tensor) -> "Candidates":
        self.positions = self.positions[kept]
        return self

    def of(self, rows: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids (0 if not a candidate) and candidate masks, rows x L each; column: targets, rows x 1."""
        length = self.sequences.shape[1]
        sequence, position = self.positions[rows] // length, self.positions[rows] % length
        ids = self.sequences[sequence]
        before = torch.arange(length, device=rows.device) < position[:, None]
        chosen = before & self.may[sequence] & (ids != column)
        return ids.masked_fill(~chosen, 0), chosen

    def apply(self, softmax: Tensor, rows: Tensor, column: Tensor, share: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """Return the loss (rows x 1), and share * softmax + the loss's gradient in the logits (rows x N, in place of softmax).

        With r_c = p_c / (1 - p_c) on candidates that are not clamped, the gradient is alpha * (r - p * sum of r).
        """
        ids, chosen = self.of(rows, column)
        p = softmax.gather(1, ids)
        rest = 1.0 - p
        loss = self.alpha * torch.where(chosen, -rest.clamp(min=SMALLEST).log(), 0.0).sum(1, keepdim=True)
        ratio = torch.where(chosen & (rest > SMALLEST), p / rest, 0.0)
        softmax.mul_(share - self.alpha * ratio.sum(1, keepdim=True)).scatter_add_(1, ids, self.alpha * ratio)
        return loss, softmax


class Gate(NamedTuple):
    """Gate of one training step. A and B must be 1 outside the rare set. They are g1 and g2 of the AGG paper (agg.py)."""

    rare: Tensor  # N, bool: the objective's rare types
    nonrare_targets: Tensor  # N, float: A, for positions whose target is not rare
    rare_targets: Tensor  # N, float: B, for positions whose target is rare


class Head(NamedTuple):
    """Transformation of hidden embedding^T to logits: softcap * tanh(scale * (h W^T + bias) / softcap)."""

    bias: Tensor | None = None  # N
    scale: float = 1.0  # Cohere's logit_scale; 1 / logits_scaling of Granite
    softcap: float | None = None  # final_logit_softcapping of Gemma 2; None: no soft-cap


PLAIN = Head()


class SummedLoss(NamedTuple):
    """Sums over the positions, in nats; only `loss` has a gradient."""

    loss: Tensor
    nll: Tensor  # plain negative log-likelihood: no smoothing, weight, offset, unlikelihood or other term


class Terms(NamedTuple):
    """Terms of the loss of M positions (padding excluded) over N types."""

    gate: Gate | None
    head: Head
    offset: Tensor | None  # M
    token_weight: Tensor | None  # N
    candidates: Candidates | None
    smoothing: float
    z_loss: float


def negative_sampling(products: Tensor, pairs: Tensor, negatives: int) -> Tensor:
    """Sum over pairs of -log s(x) - (negatives / K) * sum over the K sampled words of log s(-x_k), with s the logistic function.

    Args:
        products: blocks x positions x (C + K), of each word with the C context words of its block and the K sampled words.
        pairs: blocks x positions x C, bool, whether word and context word are a pair.
        negatives: negative samples per pair in the equation.

    The expected loss equals that of `negatives` words sampled for each pair. As in the equation, a sample that equals the pair's
    own context word counts as a negative.
    """
    contexts = pairs.shape[2]
    samples = products.shape[2] - contexts
    repelled = softplus(products[..., contexts:]).sum(2) * pairs.sum(2) * (negatives / samples)
    return torch.where(pairs, softplus(-products[..., :contexts]), 0.0).sum() + repelled.sum()
