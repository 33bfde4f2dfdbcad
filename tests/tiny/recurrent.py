"""An architecture that the package does not have: a recurrent language model."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

SHAPE = {"layers": "count", "width": "count", "dropout": "probability"}


class Recurrent(nn.Module):
    def __init__(self, vocabulary: int, layers: int, width: int, dropout: float, positions: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, width))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        nn.init.normal_(self.embedding, std=width**-0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.dropout(self.layers(self.dropout(nn.functional.embedding(inputs, self.embedding)))[0])


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    return float(6 * (shape["layers"] * 8 * shape["width"] ** 2 + vocabulary * shape["width"]))


MODEL = Recurrent
