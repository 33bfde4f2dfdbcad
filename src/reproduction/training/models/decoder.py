"""Decoder language model: pre-norm Transformer with sinusoidal positions and tied embeddings.

The architecture is that of the AGG experiments (fairseq's transformer_lm). Objectives receive the final hidden states and the
embedding matrix. encoder_decoder.py (Vaswani et al., 2017) has the same positions and initial weights.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

SHAPE = {
    "layers": "layers",
    "width": "count",
    "heads": "count",
    "feedforward": "count",
    "dropout": "probability",
    "attention_dropout": "probability",
    "activation": ["relu", "gelu"],
}
COMPILES = True


def sinusoids(length: int, width: int) -> Tensor:
    """Return position encodings (length x width): sines on even dimensions, cosines on odd ones (Vaswani et al., section 3.5)."""
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=2).reshape(length, width)


def initialise(layers: nn.Module, embedding: nn.Parameter) -> None:
    """Initialise weights by Xavier's uniform rule, biases to zero, and embedding rows (N x width) to a norm of about one."""
    for name, parameter in layers.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    nn.init.normal_(embedding, std=embedding.shape[1] ** -0.5)


class Decoder(nn.Module):
    """Causal Transformer; `embedding` (vocabulary x width) is both the input and the output embedding, without bias."""

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
        layer = nn.TransformerEncoderLayer(width, heads, feedforward, dropout, activation, batch_first=True, norm_first=True)
        layer.self_attn.dropout = attention_dropout
        layer.dropout.p = 0.0  # fairseq has no dropout after the activation by default
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        initialise(self.layers, self.embedding)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return final hidden states, sequences x positions x width; inputs: ids, sequences x positions."""
        length, width = inputs.shape[1], self.embedding.shape[1]
        hidden = nn.functional.embedding(inputs, self.embedding) * math.sqrt(width) + self.positions[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=inputs.device, dtype=hidden.dtype)
        return self.layers(self.dropout(hidden), mask=mask, is_causal=True)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    layers, width = shape["layers"], shape["width"]
    weights = 4 * width**2 + 2 * width * shape["feedforward"]
    return float(6 * (layers * weights + vocabulary * width) + 12 * layers * width * positions)


MODEL = Decoder
