"""Sinusoidal positions (Vaswani et al., 2017, section 3.5) and weight initialisation of both Transformers."""

import math

import torch
from torch import Tensor, nn


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
