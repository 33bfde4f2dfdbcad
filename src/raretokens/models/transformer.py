"""What both Transformers have: sinusoidal positions (Vaswani et al., 2017, section 3.5) and first weights."""

import math

import torch
from torch import Tensor, nn


def sinusoids(length: int, width: int) -> Tensor:
    """length x width: sines on even dimensions, cosines on odd ones."""
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=2).reshape(length, width)


def initialise(layers: nn.Module, embedding: nn.Parameter) -> None:
    """Xavier's uniform weights, biases of zero, and rows of the embedding matrix (N x width) of length about one."""
    for name, parameter in layers.named_parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    nn.init.normal_(embedding, std=embedding.shape[1] ** -0.5)
