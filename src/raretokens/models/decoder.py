"""Decoder language model: pre-norm Transformer, sinusoidal positions, one embedding matrix for input and softmax.

The shape is that of the AGG experiments (fairseq's transformer_lm); its objectives see the last hidden states and the embedding.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from raretokens.models.transformer import initialise, sinusoids

SHAPE = {
    "layers": "layers",
    "width": "count",
    "heads": "count",
    "feedforward": "count",
    "dropout": "probability",
    "attention_dropout": "probability",
    "activation": ["relu", "gelu"],
}


class Decoder(nn.Module):
    """Causal Transformer; `embedding` (vocabulary x width) is both the input embedding and the softmax weight, without bias."""

    def __init__(
        self,
        vocabulary: int,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float,
        attention_dropout: float,
        activation: str,
        positions: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, width))
        self.register_buffer("positions", sinusoids(positions, width), persistent=False)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            width, heads, feedforward, dropout, activation, batch_first=True, norm_first=True
        )
        layer.self_attn.dropout = attention_dropout
        layer.dropout.p = 0.0  # after the activation: fairseq has none by default
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        initialise(self.layers, self.embedding)

    def forward(self, inputs: Tensor) -> Tensor:
        """Ids of sequences x positions -> final hidden states of sequences x positions x width."""
        length, width = inputs.shape[1], self.embedding.shape[1]
        hidden = nn.functional.embedding(inputs, self.embedding) * math.sqrt(width) + self.positions[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=inputs.device, dtype=hidden.dtype)
        return self.layers(self.dropout(hidden), mask=mask, is_causal=True)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    layers, width = shape["layers"], shape["width"]
    weights = 4 * width**2 + 2 * width * shape["feedforward"]
    return float(6 * (layers * weights + vocabulary * width) + 12 * layers * width * positions)


MODEL = Decoder
