"""Equivalents of the pipeline's models in transformers: BioGPT for the decoder, Marian for the encoder-decoder.

XGLM also has the decoder's layers, but it computes sinusoids with other frequencies (its exponents end at 1) and does not
load them from the file. BioGPT stores positions as weights, so the sinusoids are written to the file. Marian stores sines and
cosines in two halves, but it reads its positions from the file if they are present, so they are written too.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from raretokens.models.decoder import Decoder
from raretokens.models.encoder_decoder import EncoderDecoder
from raretokens.models.transformer import sinusoids
from raretokens.tokenization.vocabulary import BOS, EOS, PAD

NamedWeights = Iterator[tuple[str, Tensor]]
UNUSED_POSITIONS = 2  # first rows of BioGPT's position embedding, which it never reads


class Architecture(NamedTuple):
    """A transformers architecture that computes the same function as an architecture of the pipeline."""

    model_class: str
    model_type: str
    config: Callable[[dict[str, Any], int, int], dict[str, Any]]  # arguments: model config, types, positions
    generation: dict[str, Any]  # settings of generate()
    weights: Callable[[Any, int], NamedWeights]  # arguments: model, positions


def _biogpt_config(shape: dict[str, Any], types: int, positions: int) -> dict[str, Any]:
    """Return a config: pre-norm, input embedding scaled by sqrt(width), final norm, tied softmax."""
    return {
        "vocab_size": types,
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


def _biogpt_weights(model: Decoder, positions: int) -> NamedWeights:
    yield "biogpt.embed_tokens.weight", model.embedding
    encoded = sinusoids(positions, model.embedding.shape[1])
    yield "biogpt.embed_positions.weight", pad(encoded, (0, 0, UNUSED_POSITIONS, 0))
    for number, layer in enumerate(model.layers.layers):
        yield from _layer(f"biogpt.layers.{number}", layer)
    norm = model.layers.norm
    assert isinstance(norm, nn.LayerNorm)
    yield from _weight_and_bias("biogpt.layer_norm", norm)


def _marian_config(shape: dict[str, Any], types: int, positions: int) -> dict[str, Any]:
    """Return a config: post-norm, one scaled embedding for source, target and softmax, no output bias."""
    sides = {
        f"{side}_{what}": shape[key]
        for side in ("encoder", "decoder")
        for what, key in (("layers", "layers"), ("attention_heads", "heads"), ("ffn_dim", "feedforward"))
    }
    return sides | {
        "vocab_size": types,
        "decoder_vocab_size": types,
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


def _marian_weights(model: EncoderDecoder, positions: int) -> NamedWeights:
    yield "model.shared.weight", model.embedding
    yield "final_logits_bias", torch.zeros(1, len(model.embedding))
    encoded = sinusoids(positions, model.embedding.shape[1])
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{side}.embed_positions.weight", encoded.clone()
        for number, layer in enumerate(stack.layers):
            yield from _layer(f"model.{side}.layers.{number}", layer)


def _layer(name: str, layer: nn.Module) -> NamedWeights:
    """Yield the weights of a Transformer layer. BioGPT and Marian name them alike."""
    last = layer.norm2
    yield from _attention(f"{name}.self_attn", layer.self_attn)
    yield from _weight_and_bias(f"{name}.self_attn_layer_norm", layer.norm1)
    if isinstance(layer, nn.TransformerDecoderLayer):
        yield from _attention(f"{name}.encoder_attn", layer.multihead_attn)
        yield from _weight_and_bias(f"{name}.encoder_attn_layer_norm", layer.norm2)
        last = layer.norm3
    yield from _weight_and_bias(f"{name}.fc1", layer.linear1)
    yield from _weight_and_bias(f"{name}.fc2", layer.linear2)
    yield from _weight_and_bias(f"{name}.final_layer_norm", last)


def _attention(name: str, source: nn.MultiheadAttention) -> NamedWeights:
    """Yield the three projections, which torch concatenates in one matrix."""
    for part, weight, bias in zip("qkv", source.in_proj_weight.chunk(3), source.in_proj_bias.chunk(3), strict=True):
        yield f"{name}.{part}_proj.weight", weight
        yield f"{name}.{part}_proj.bias", bias
    yield from _weight_and_bias(f"{name}.out_proj", source.out_proj)


def _weight_and_bias(name: str, source: nn.Linear | nn.LayerNorm) -> NamedWeights:
    yield f"{name}.weight", source.weight
    yield f"{name}.bias", source.bias


ARCHITECTURES = {  # keys: architectures of the pipeline
    "decoder": Architecture(
        "BioGptForCausalLM",
        "biogpt",
        _biogpt_config,
        # Training texts follow one another, so </s> precedes each text.
        {"bos_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "suppress_tokens": [PAD]},
        _biogpt_weights,
    ),
    "encoder_decoder": Architecture(
        "MarianMTModel",
        "marian",
        _marian_config,
        {"decoder_start_token_id": EOS, "eos_token_id": EOS, "pad_token_id": PAD, "bad_words_ids": [[PAD]]},
        _marian_weights,
    ),
}
