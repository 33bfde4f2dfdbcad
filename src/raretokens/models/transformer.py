"""What both Transformers have: sinusoidal positions (Vaswani et al., 2017, section 3.5)."""

import math

import torch
from torch import Tensor


def sinusoids(length: int, width: int) -> Tensor:
    """length x width: sines on even dimensions, cosines on odd ones."""
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=2).reshape(length, width)
