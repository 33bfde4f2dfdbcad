"""Decoder language model: pre-norm Transformer with sinusoidal positions and tied embeddings.

The architecture is that of the AGG experiments (fairseq's transformer_lm). Objectives receive the final hidden states and the
embedding matrix.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from raretokens.models.transformer import TiedTransformer, initialise

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


class Decoder(TiedTransformer):
    """Causal Transformer."""

    def __init__(
        self,
        vocabulary: int,
        layers: int,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float,
        attention_dropout: float,
        activation: str,
        positions: int,
    ) -> None:
        super().__init__(vocabulary, width, dropout, positions)
        layer = nn.TransformerEncoderLayer(
            width, heads, feedforward, dropout, activation, batch_first=True, norm_first=True
        )
        layer.self_attn.dropout = attention_dropout
        layer.dropout.p = 0.0  # fairseq has no dropout after the activation by default
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        initialise(self.layers, self.embedding)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return final hidden states, sequences x positions x width; inputs: ids, sequences x positions."""
        hidden = self.embed(inputs)
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], inputs.device, hidden.dtype)
        return self.layers(hidden, mask=mask, is_causal=True)


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    layers, width = shape["layers"], shape["width"]
    weights = 4 * width**2 + 2 * width * shape["feedforward"]
    return float(6 * (layers * weights + vocabulary * width) + 12 * layers * width * positions)


MODEL = Decoder
