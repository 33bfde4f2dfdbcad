"""The decoder as transformers' BioGPT: pre-norm, the table scaled by sqrt(width) on its way in, a final norm, a tied softmax.

XGLM has the same layers, but computes sinusoids of other frequencies (its exponents end at 1) and does not load them from the
file. BioGPT takes positions as weights, so ours are written down; its first two rows are never read.
"""

from typing import Any

from torch import nn

from raretokens.models.decoder import Decoder
from raretokens.models.transformer import sinusoids
from raretokens.tokenization.vocabulary import BOS, EOS, PAD
from raretokens.tools.exporting.linears import Named, attention, both

CLASS, TYPE = "BioGptForCausalLM", "biogpt"
UNUSED = 2  # rows before the first position


def config(shape: dict[str, Any], vocabulary: int, positions: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": shape["width"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "intermediate_size": shape["feedforward"],
        "hidden_act": shape["activation"],
        "hidden_dropout_prob": shape["dropout"],
        "attention_probs_dropout_prob": shape["attention_dropout"],
        "max_position_embeddings": positions,
        "layer_norm_eps": 1e-5,
        "scale_embedding": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def generation(shape: dict[str, Any], positions: int) -> dict[str, Any]:
    """A text begins after the end of another."""
    return {"bos_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "suppress_tokens": [PAD]}


def weights(model: Decoder, positions: int) -> Named:
    """Name -> tensor; the softmax is the table."""
    yield "biogpt.embed_tokens.weight", model.table
    places = sinusoids(positions, model.table.shape[1])
    yield "biogpt.embed_positions.weight", nn.functional.pad(places, (0, 0, UNUSED, 0))
    for number, layer in enumerate(model.layers.layers):
        name = f"biogpt.layers.{number}"
        yield from attention(f"{name}.self_attn", layer.self_attn)
        yield from both(f"{name}.self_attn_layer_norm", layer.norm1)
        yield from both(f"{name}.fc1", layer.linear1)
        yield from both(f"{name}.fc2", layer.linear2)
        yield from both(f"{name}.final_layer_norm", layer.norm2)
    norm = model.layers.norm
    assert isinstance(norm, nn.LayerNorm)
    yield from both("biogpt.layer_norm", norm)
