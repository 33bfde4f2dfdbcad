"""AWD-LSTM: a recurrent language model with several kinds of dropout and tied embeddings (Merity et al., 2018).

Inner layers have width `hidden`; the last layer has the width of the embedding matrix. Locked dropout uses one mask for all
positions of a sequence.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

SHAPE = {
    "layers": "count",
    "width": "count",  # width of the embedding matrix
    "hidden": "count",  # width of all layers except the last
    "word_dropout": "probability",  # drops whole token types from the input
    "embedding_dropout": "probability",  # locked, on the input
    "hidden_dropout": "probability",  # locked, between layers
    "context_dropout": "probability",  # locked, on the last layer
    "recurrent_dropout": "probability",  # on the hidden-to-hidden weights
    "activation_penalty": "positive",  # weight of the last layer's mean square after dropout
    "temporal_activation_penalty": "positive",  # weight of the mean square of its change per position, before dropout
}
# Remark on the time estimate of `plan`.
TIME = "positions follow each other: starting each step decides, and its hours are many times those of its operations"
INITIAL = 0.1  # the initial embedding matrix is uniform in +-INITIAL


class Output(NamedTuple):
    """Output of the model for a batch of sequences x positions."""

    hidden: Tensor  # sequences x positions x width, last layer after dropout
    states: Tensor  # sequences x positions x width, last layer before dropout
    carried: Tensor  # sequences x state, detached: states of all layers after the last position


class WeightDroppedLSTM(nn.LSTM):
    """LSTM layer, batch first, with dropout on the recurrent weights; the mask is the same at all positions."""

    def __init__(self, inputs: int, width: int, dropped: float) -> None:
        super().__init__(inputs, width, batch_first=True)
        self.dropped = dropped

    def forward(self, inputs: Tensor, carried: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # type: ignore[override]
        """Return states (sequences x positions x width) and the last (h, c).

        inputs: sequences x positions x inputs; carried: initial (h, c), each 1 x sequences x width.
        """
        recurrent = nn.functional.dropout(self.weight_hh_l0, self.dropped, self.training)
        weights = [self.weight_ih_l0, recurrent, self.bias_ih_l0, self.bias_hh_l0]
        is_differentiated = torch.is_grad_enabled()  # cuDNN would treat dynamic evaluation as inference
        states, h, c = torch._VF.lstm(inputs, carried, weights, True, 1, 0.0, is_differentiated, False, True)
        return states, (h, c)


class AWDLSTM(nn.Module):
    """AWD-LSTM; `embedding` (vocabulary x width) is both the input and the output embedding, and the softmax has a bias."""

    def __init__(
        self,
        vocabulary: int,
        layers: int,
        width: int,
        hidden: int,
        word_dropout: float,
        embedding_dropout: float,
        hidden_dropout: float,
        context_dropout: float,
        recurrent_dropout: float,
        activation_penalty: float,
        temporal_activation_penalty: float,
        positions: int,
        last: int | None = None,
    ) -> None:
        """Arguments are those of SHAPE; last: width of the last layer, by default that of the embedding matrix."""
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, width).uniform_(-INITIAL, INITIAL))
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        widths = [width, *[hidden] * (layers - 1), last or width]
        pairs = zip(widths, widths[1:], strict=False)
        self.layers = nn.ModuleList(WeightDroppedLSTM(before, after, recurrent_dropout) for before, after in pairs)
        self.word_dropout, self.embedding_dropout = word_dropout, embedding_dropout
        self.hidden_dropout, self.context_dropout = hidden_dropout, context_dropout
        self.penalties = activation_penalty, temporal_activation_penalty

    @property
    def state(self) -> int:
        """Number of values that all layers carry from one position to the next."""
        return sum(2 * layer.hidden_size for layer in self.layers)

    def forward(self, inputs: Tensor, carried: Tensor | None = None) -> Output:
        """Compute hidden states; inputs: ids, sequences x positions; carried: initial states, sequences x state (None: zeros)."""
        carried = self.embedding.new_zeros(len(inputs), self.state) if carried is None else carried
        states, after = self._locked(self._embed(inputs), self.embedding_dropout), []
        parts = carried.split([layer.hidden_size for layer in self.layers for _ in "hc"], dim=1)
        for layer, h, c in zip(self.layers, parts[::2], parts[1::2], strict=True):
            if after:
                states = self._locked(states, self.hidden_dropout)
            before = h[None].to(states.dtype).contiguous(), c[None].to(states.dtype).contiguous()
            states, left = layer(states, before)
            after += [part[0].detach().to(self.embedding.dtype) for part in left]
        return Output(self._locked(states, self.context_dropout), states, torch.cat(after, dim=1))

    def _embed(self, inputs: Tensor) -> Tensor:
        found = nn.functional.embedding(inputs, self.embedding)
        if not self.training or not self.word_dropout:
            return found
        return found * nn.functional.dropout(self.embedding.new_ones(len(self.embedding), 1), self.word_dropout)[inputs]

    def _locked(self, states: Tensor, dropped: float) -> Tensor:
        if not self.training or not dropped:
            return states
        return states * nn.functional.dropout(states.new_ones(len(states), 1, states.shape[2]), dropped)

    def penalty(self, output: Output, kept: Tensor) -> Tensor:
        """Return the sum of both penalties over positions; kept: bool, sequences x positions. The mean is that of the paper."""
        activation, slowness = self.penalties
        change = (output.states[:, 1:] - output.states[:, :-1]).square().mean(2)[kept[:, 1:]].sum()
        longer = kept.shape[1] / max(kept.shape[1] - 1, 1)  # a sequence has one change fewer than positions
        return activation * output.hidden.square().mean(2)[kept].sum() + slowness * longer * change

    def softmax(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden states and weights with an extra column for the bias, so that their products are the logits."""
        ones = hidden.new_ones(*hidden.shape[:-1], 1)
        return torch.cat((hidden, ones), dim=-1), torch.cat((self.embedding, self.bias[:, None]), dim=1)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return log-probabilities, positions x vocabulary; hidden: positions x width."""
        return nn.functional.linear(hidden, self.embedding, self.bias).log_softmax(1)


def layer_weights(layers: int, width: int, hidden: int, last: int) -> int:
    """Return the number of weights in the matrix products of all layers at one position."""
    widths = [width, *[hidden] * (layers - 1), last]
    return sum(4 * after * (before + after) for before, after in zip(widths, widths[1:], strict=False))


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    layers, width, hidden = shape["layers"], shape["width"], shape["hidden"]
    return 6.0 * (layer_weights(layers, width, hidden, width) + vocabulary * width)


MODEL = AWDLSTM
