"""The language model of decoder.py with an input embedding of its own.

`embedding` is the output embedding, to which objectives, predictions and metrics refer. With the same seed, it and the other
weights start as those of decoder.py do. The input embedding starts from the same distribution.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from reproduction.training.models import decoder

# That of decoder.py, written out because params.yaml is checked by reading it as a literal, without torch.
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


class UntiedDecoder(nn.Module):
    """Causal Transformer with an input embedding and an output embedding, both vocabulary x width."""

    def __init__(self, vocabulary: int, width: int, **shape: Any) -> None:
        super().__init__()
        tied = decoder.Decoder(vocabulary, width=width, **shape)  # no base class, whose exports write one matrix
        self.embedding, self.dropout, self.layers = tied.embedding, tied.dropout, tied.layers
        self.register_buffer("positions", tied.positions, persistent=False)
        self.input_embedding = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return final hidden states, sequences x positions x width; inputs: ids, sequences x positions."""
        length, width = inputs.shape[1], self.embedding.shape[1]
        hidden = nn.functional.embedding(inputs, self.input_embedding) * math.sqrt(width) + self.positions[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=inputs.device, dtype=hidden.dtype)
        return self.layers(self.dropout(hidden), mask=mask, is_causal=True)


flops_per_token = decoder.flops_per_token  # a look-up costs no product
MODEL = UntiedDecoder
