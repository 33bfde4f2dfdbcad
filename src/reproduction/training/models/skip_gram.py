"""Skip-gram with negative sampling (Mikolov et al., 2013).

A word's row in the input embedding predicts surrounding words by products with rows of the output embedding. Initial values
follow the TensorFlow tutorial of FRAGE table 9: uniform in +-1/(2d) for the input embedding, zero for the output embedding.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

# window: most words on each side; negatives: negative samples per pair in the loss; shared_negatives: samples that all pairs of
# a block share; subsample: threshold t of word2vec's subsampling of frequent words (0: none)
SHAPE = {"width": "count", "window": "count", "negatives": "count", "shared_negatives": "count", "subsample": "probability"}
# Remark on the time estimate of `plan`.
TIME = "rows are read and written one by one: memory and latency decide, and its hours are many times those of its operations"


class SkipGram(nn.Module):
    """Skip-gram model: products of word embeddings with output embeddings of context words and negative samples."""

    def __init__(
        self, vocabulary: int, positions: int, width: int, window: int, negatives: int, shared_negatives: int, subsample: float
    ) -> None:
        super().__init__()
        self.window, self.negatives, self.shared_negatives = window, negatives, shared_negatives
        self.embedding = nn.Parameter(torch.empty(vocabulary, width).uniform_(-0.5 / width, 0.5 / width))
        self.outputs = nn.Parameter(torch.zeros(vocabulary, width))

    def forward(self, centres: Tensor, others: Tensor) -> Tensor:
        """Return products, blocks x positions x others; centres: ids, blocks x positions; others: ids, blocks x others.

        The gradients of both embedding matrices are sparse, so the time of a step does not depend on the vocabulary size.
        """
        rows = nn.functional.embedding(centres, self.embedding, sparse=True)
        return rows @ nn.functional.embedding(others, self.outputs, sparse=True).transpose(1, 2)

    def example(self, sequences: int, positions: int) -> tuple[Tensor, Tensor]:
        """Return dummy inputs of `sequences` blocks, to measure the cost of a pass."""
        others = positions + 2 * self.window + self.shared_negatives
        return torch.zeros(sequences, positions, dtype=torch.int64), torch.zeros(sequences, others, dtype=torch.int64)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Return operations per token: products with all rows of a block, forward and twice backward.

    Subsampling is ignored, so the real number is lower.
    """
    return float(6 * shape["width"] * (positions + 2 * shape["window"] + shape["shared_negatives"]))


MODEL = SkipGram
