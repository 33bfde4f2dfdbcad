"""Skip-gram with negative sampling (Mikolov et al., 2013).

The row of a word in the first embedding predicts the words around it by its products with rows of the second embedding. Initial
values follow the TensorFlow tutorial that FRAGE table 9 names: the first is uniform in +-1/(2d), the second zero.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# window: words on each side at most; negatives: counted for each pair; shared_negatives: samples that all pairs of a block share;
# subsample: relative frequency from which on occurrences are left out
SHAPE = {
    "width": "count",
    "window": "count",
    "negatives": "count",
    "shared_negatives": "count",
    "subsample": "probability",
}
# What a plan says of its hours.
TIME = "rows are read and written one by one: memory and latency decide, and its hours are many times those of its operations"


class SkipGram(nn.Module):
    """Products of the embeddings of words with those of their contexts and of negative samples."""

    def __init__(
        self,
        vocabulary: int,
        positions: int,
        width: int,
        window: int,
        negatives: int,
        shared_negatives: int,
        subsample: float,
    ) -> None:
        super().__init__()
        self.window, self.negatives, self.shared_negatives = window, negatives, shared_negatives
        self.embedding = nn.Parameter(torch.empty(vocabulary, width).uniform_(-0.5 / width, 0.5 / width))
        self.outputs = nn.Parameter(torch.zeros(vocabulary, width))

    def forward(self, centres: Tensor, others: Tensor) -> Tensor:
        """blocks x positions and blocks x others, ids -> products (blocks x positions x others).

        The gradients of both embedding matrices are sparse: an update costs what it reads, not what the vocabulary holds.
        """
        rows = nn.functional.embedding(centres, self.embedding, sparse=True)
        return rows @ nn.functional.embedding(others, self.outputs, sparse=True).transpose(1, 2)

    def example(self, sequences: int, positions: int) -> tuple[Tensor, Tensor]:
        """Return inputs of that many blocks, to measure the cost of a pass."""
        others = positions + 2 * self.window + self.shared_negatives
        return torch.zeros(sequences, positions, dtype=torch.int64), torch.zeros(sequences, others, dtype=torch.int64)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Of products with all that a block reads, forward and twice backward; subsampling leaves fewer tokens."""
    return float(6 * shape["width"] * (positions + 2 * shape["window"] + shape["shared_negatives"]))


MODEL = SkipGram
