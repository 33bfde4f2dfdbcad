"""AWD-LSTM with a mixture of softmaxes (Yang et al., 2018): p = sum_k prior_k softmax(W latent_k + b), k over experts.

The hidden state of a position gives the priors and each expert's latent vector (tanh, width of the embedding matrix). Positions
are processed in chunks and recomputed in the backward pass, so no positions x experts x vocabulary tensor ever exists.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from reproduction.training.models import awd_lstm

SHAPE = {
    "layers": "count",
    "width": "count",
    "hidden": "count",
    "last": "count",  # width of the last layer
    "experts": "count",
    "word_dropout": "probability",
    "embedding_dropout": "probability",
    "hidden_dropout": "probability",
    "output_dropout": "probability",  # locked, on the last layer
    "context_dropout": "probability",  # locked, on the latent vectors
    "recurrent_dropout": "probability",
    "activation_penalty": "positive",
    "temporal_activation_penalty": "positive",
}
TIME = "positions follow each other: starting each step decides, and its hours are many times those of its operations"
ROWS = 1 << 24  # logits per chunk


class Mixture(awd_lstm.AWDLSTM):
    def __init__(
        self, vocabulary: int, width: int, last: int, experts: int, output_dropout: float, context_dropout: float, **rest: Any
    ) -> None:
        super().__init__(vocabulary, width=width, last=last, context_dropout=output_dropout, **rest)
        self.latent, self.prior = nn.Linear(last, experts * width), nn.Linear(last, experts, bias=False)
        self.latent_dropout = context_dropout

    def experts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return latent vectors (sequences x positions x experts x width) and log priors (sequences x positions x experts).

        hidden: sequences x positions x last.
        """
        latent = self._locked(self.latent(hidden).tanh(), self.latent_dropout)
        return latent.unflatten(2, (-1, self.embedding.shape[1])), self.prior(hidden).float().log_softmax(2)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the NLL of each target in nats; hidden: sequences x positions x last, targets: sequences x positions."""
        latent, priors = (part.flatten(0, 1) for part in self.experts(hidden))
        step = max(ROWS // (len(self.embedding) * priors.shape[1]), 1)
        parts = zip(latent.split(step), priors.split(step), targets.flatten().split(step), strict=True)
        again = torch.is_grad_enabled()
        found = [checkpoint(self._few, *part, use_reentrant=False) if again else self._few(*part) for part in parts]
        return torch.cat(found).view_as(targets)

    def _few(self, latent: Tensor, priors: Tensor, targets: Tensor) -> Tensor:
        """Return the NLL of one chunk of positions, from the experts' probabilities of the target alone."""
        logits = nn.functional.linear(latent, self.embedding, self.bias).float()  # positions x experts x vocabulary
        index = targets[:, None, None].expand(*logits.shape[:2], 1)
        of_target = logits.gather(2, index).squeeze(2) - logits.logsumexp(2)
        return -(priors + of_target).logsumexp(1)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return log-probabilities, positions x vocabulary; hidden: positions x last."""
        latent, priors = (part[0] for part in self.experts(hidden[None]))
        logits = nn.functional.linear(latent, self.embedding, self.bias).float().log_softmax(2)
        return (priors[:, :, None] + logits).logsumexp(1)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    width, last, experts = shape["width"], shape["last"], shape["experts"]
    layers = awd_lstm.layer_weights(shape["layers"], width, shape["hidden"], last)
    return 6.0 * (layers + last * experts * (width + 1) + experts * vocabulary * width)


MODEL = Mixture
