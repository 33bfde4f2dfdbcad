"""Recurrent language model of gated recurrent units, with tied input and output embeddings. Example of an architecture."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

SHAPE = {"layers": "layers", "width": "count", "dropout": "probability"}


class GRU(nn.Module):
    def __init__(self, vocabulary: int, layers: int, width: int, dropout: float, positions: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.GRU(width, width, layers, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return final hidden states, sequences x positions x width, of ids, sequences x positions."""
        embedded = nn.functional.embedding(inputs, self.embedding) * math.sqrt(self.embedding.shape[1])
        return self.layers(self.dropout(embedded))[0]


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    return 6.0 * (shape["layers"] * 6 * shape["width"] ** 2 + vocabulary * shape["width"])


MODEL = GRU
