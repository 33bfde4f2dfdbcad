"""Translation model: post-norm Transformer with sinusoidal positions and all three embeddings tied (Vaswani et al., 2017)."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from raretokens.vocabulary import PAD
from reproduction.training.models.decoder import initialise, sinusoids

SHAPE = {
    "layers": "layers",  # layers of the encoder, and of the decoder
    "width": "count",
    "heads": "count",
    "feedforward": "count",
    "dropout": "probability",
    "attention_dropout": "probability",
    "activation": ["relu", "gelu"],
}
COMPILES = True


class EncoderDecoder(nn.Module):
    """Transformer; `embedding` (joint vocabulary x width) is source, target and output embedding, without bias."""

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
        # norm=None (the default): in a post-norm stack each layer ends with its own norm.
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**shape), layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), layers)
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = attention_dropout
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0  # fairseq has no dropout after the activation by default
        initialise(self, self.embedding)

    def embed(self, ids: Tensor) -> Tensor:
        width = self.embedding.shape[1]
        return self.dropout(nn.functional.embedding(ids, self.embedding) * math.sqrt(width) + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """Return decoder states, sentences x target positions x width; source, inputs: padded ids, sentences x positions."""
        absent = source == PAD
        with _attention(source.device):
            memory = self.encoder(self.embed(source), src_key_padding_mask=absent)
            hidden = self.embed(inputs)
            mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], inputs.device, hidden.dtype)
            return self.decoder(hidden, memory, tgt_mask=mask, tgt_is_causal=True, memory_key_padding_mask=absent)


def _attention(device: torch.device) -> AbstractContextManager:
    """Return a context without the fused attention kernel on the CPU, whose backward pass is slow for short sequences."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def flops_per_token(shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Return operations per target token; positions: length of a side, better the mean than the longest.

    The estimate assumes one source token per target token. The source token passes the encoder and the keys and values of the
    cross-attention.
    """
    layers, width = shape["layers"], shape["width"]
    weights = 12 * width**2 + 4 * width * shape["feedforward"]  # encoder, decoder and cross-attention
    return float(6 * (layers * weights + vocabulary * width) + 12 * layers * width * 3 * positions)


MODEL = EncoderDecoder
