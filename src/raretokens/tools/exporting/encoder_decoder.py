"""The encoder-decoder as transformers' Marian: post-norm, one scaled table for source, target and softmax, no output bias.

Marian lays sines and cosines out in halves, but reads its positions from the file where they are there, so ours are written.
"""

from typing import Any

import torch
from torch import nn

from raretokens.models.encoder_decoder import EncoderDecoder
from raretokens.models.transformer import sinusoids
from raretokens.tokenization.vocabulary import BOS, EOS, PAD
from raretokens.tools.exporting.linears import Named, attention, both

CLASS, TYPE = "MarianMTModel", "marian"


def config(shape: dict[str, Any], vocabulary: int, positions: int) -> dict[str, Any]:
    sides = {
        f"{side}_{what}": shape[key]
        for side in ("encoder", "decoder")
        for what, key in (("layers", "layers"), ("attention_heads", "heads"), ("ffn_dim", "feedforward"))
    }
    return sides | {
        "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary,
        "d_model": shape["width"],
        "activation_function": shape["activation"],
        "dropout": shape["dropout"],
        "attention_dropout": shape["attention_dropout"],
        "max_position_embeddings": positions,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "is_encoder_decoder": True,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": BOS,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,
    }


def generation(shape: dict[str, Any], positions: int) -> dict[str, Any]:
    return {"decoder_start_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "bad_words_ids": [[PAD]]}


def weights(model: EncoderDecoder, positions: int) -> Named:
    """Name -> tensor; the three tables are one."""
    yield "model.shared.weight", model.table
    yield "final_logits_bias", torch.zeros(1, len(model.table))
    places = sinusoids(positions, model.table.shape[1])
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{side}.embed_positions.weight", places.clone()
        for number, layer in enumerate(stack.layers):
            yield from _layer(f"model.{side}.layers.{number}", layer)


def _layer(name: str, layer: nn.Module) -> Named:
    last = layer.norm2
    yield from attention(f"{name}.self_attn", layer.self_attn)
    yield from both(f"{name}.self_attn_layer_norm", layer.norm1)
    if isinstance(layer, nn.TransformerDecoderLayer):
        yield from attention(f"{name}.encoder_attn", layer.multihead_attn)
        yield from both(f"{name}.encoder_attn_layer_norm", layer.norm2)
        last = layer.norm3
    yield from both(f"{name}.fc1", layer.linear1)
    yield from both(f"{name}.fc2", layer.linear2)
    yield from both(f"{name}.final_layer_norm", last)
