"""Image classifier: two convolutional layers, one linear feature layer, and a softmax with one row per class (CosReg figure 1c).

The CosReg paper specifies only a two-layer convolutional network trained on MNIST.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

SHAPE = {"channels": "count", "width": "count", "dropout": "probability"}
BRIGHTEST = 255


class CNN(nn.Module):
    """CNN for square images; `embedding` (classes x width, plus rows of special tokens) is the softmax weight."""

    def __init__(self, vocabulary: int, channels: int, width: int, dropout: float, positions: int) -> None:
        super().__init__()
        self.side = math.isqrt(positions)
        if self.side**2 != positions or self.side < 4:
            raise ValueError(f"an image of {positions} pixels is not a square of 4 x 4 or more")
        self.embedding = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(2 * channels * (self.side // 4) ** 2, width),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features, images x 1 x width; inputs: brightness from 0 to 255, images x pixels."""
        images = inputs.to(self.embedding.dtype) / BRIGHTEST
        return self.layers(images.view(-1, 1, self.side, self.side))[:, None]


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Return operations per pixel. The first layer needs 4 operations a weight, as its input needs no gradient."""
    channels, pixels = shape["channels"], max(positions, 1)
    side = math.isqrt(pixels)
    half, quarter = (side // 2) ** 2, (side // 4) ** 2
    later = 9 * channels * 2 * channels * half + 2 * channels * quarter * shape["width"] + vocabulary * shape["width"]
    return 4.0 * 9 * channels + 6.0 * later / pixels


MODEL = CNN
