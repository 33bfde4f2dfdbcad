"""Translation model: post-norm Transformer (Vaswani et al., 2017), sinusoidal positions, all three embedding matrices tied."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from raretokens.models.transformer import initialise, sinusoids
from raretokens.tokenization.vocabulary import PAD

SHAPE = {
    "layers": "layers",  # of encoder and decoder each
    "width": "count",
    "heads": "count",
    "feedforward": "count",
    "dropout": "probability",
    "attention_dropout": "probability",
    "activation": ["relu", "gelu"],
}


class EncoderDecoder(nn.Module):
    """`embedding` (joint vocabulary x width) is source embedding, target embedding and softmax weight, without bias."""

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
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, width))
        self.register_buffer("positions", sinusoids(positions, width), persistent=False)
        self.dropout = nn.Dropout(dropout)
        shape = {"d_model": width, "nhead": heads, "dim_feedforward": feedforward, "dropout": dropout}
        shape |= {"activation": activation, "batch_first": True}
        # norm=None: in a post-norm stack each layer ends with its own norm.
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**shape), layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), layers)
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = attention_dropout
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # after the activation: fairseq has none by default
        initialise(self, self.embedding)

    def embed(self, ids: Tensor) -> Tensor:
        width = self.embedding.shape[1]
        return self.dropout(
            nn.functional.embedding(ids, self.embedding) * math.sqrt(width) + self.positions[: ids.shape[1]]
        )

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """Padded ids of sentences x positions -> decoder states of sentences x target positions x width."""
        absent = source == PAD
        with _attention(source.device):
            memory = self.encoder(self.embed(source), src_key_padding_mask=absent)
            hidden = self.embed(inputs)
            mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], inputs.device, hidden.dtype)
            return self.decoder(hidden, memory, tgt_mask=mask, tgt_is_causal=True, memory_key_padding_mask=absent)


def _attention(device: torch.device) -> AbstractContextManager:
    """On a processor the backward pass of the fused kernel is slow for sequences as short as sentences."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """positions: of a side; the mean sentence is closer than the longest.

    Each target token comes with one source token, which passes the encoder and the keys and values of the cross-attention.
    """
    layers, width = shape["layers"], shape["width"]
    weights = 12 * width**2 + 4 * width * shape["feedforward"]  # encoder, decoder and cross-attention
    return float(6 * (layers * weights + vocabulary * width) + 12 * layers * width * 3 * positions)


MODEL = EncoderDecoder
