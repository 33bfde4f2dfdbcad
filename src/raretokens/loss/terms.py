"""What a loss over positions and types is made of, beside hidden states, table and targets."""

from typing import NamedTuple

from torch import Tensor

from raretokens.loss.unlikelihood import Candidates


class Gate(NamedTuple):
    """Gate of one update. A and B must be 1 outside the rare set."""

    rare: Tensor  # N, bool: the objective's rare types
    nonrare_targets: Tensor  # N, float: A, for positions whose target is not rare
    rare_targets: Tensor  # N, float: B, for positions whose target is rare


class Head(NamedTuple):
    """What a model makes of hidden table^T before the softmax: softcap * tanh(scale * (h W^T + bias) / softcap)."""

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
