"""Scaled embedding, sinusoidal positions (Vaswani et al., 2017, section 3.5) and initial weights of both Transformers."""

import math

import torch
from torch import Tensor, nn


class TiedTransformer(nn.Module):
    """Base class of Transformers; `embedding` (vocabulary x width) is each input and the output embedding, without bias."""

    def __init__(self, vocabulary: int, width: int, dropout: float, positions: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, width))
        self.register_buffer("positions", sinusoids(positions, width), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def embed(self, ids: Tensor) -> Tensor:
        """Return scaled embeddings with positions, after dropout; shape: sequences x positions x width."""
        scaled = nn.functional.embedding(ids, self.embedding) * math.sqrt(self.embedding.shape[1])
        return self.dropout(scaled + self.positions[: ids.shape[1]])


def sinusoids(length: int, width: int) -> Tensor:
    """Return position encodings (length x width): sines on even dimensions, cosines on odd dimensions."""
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
