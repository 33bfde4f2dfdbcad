"""Models of the pipeline as models of transformers: the decoder as BioGPT, the encoder-decoder as Marian.

XGLM has the layers of the decoder too, but it computes sinusoids of other frequencies (its exponents end at 1) and does not load
them from the file. BioGPT takes positions as weights, so the sinusoids are written. Marian lays sines and cosines out in halves,
but reads its positions from the file if they are there, so these are written too.
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
UNUSED_POSITIONS = 2  # rows of BioGPT's position embedding that are never read


class Architecture(NamedTuple):
    """An architecture of transformers that computes what one of the pipeline's does."""

    model_class: str
    model_type: str
    config: Callable[[dict[str, Any], int, int], dict[str, Any]]  # of model config, types and positions
    generation: dict[str, Any]  # settings of generate()
    weights: Callable[[Any, int], NamedWeights]  # of model and positions


def _biogpt_config(shape: dict[str, Any], types: int, positions: int) -> dict[str, Any]:
    """Pre-norm, the embedding scaled by sqrt(width) on its way in, a final norm, a tied softmax."""
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
        name = f"biogpt.layers.{number}"
        yield from _attention(f"{name}.self_attn", layer.self_attn)
        yield from _weight_and_bias(f"{name}.self_attn_layer_norm", layer.norm1)
        yield from _weight_and_bias(f"{name}.fc1", layer.linear1)
        yield from _weight_and_bias(f"{name}.fc2", layer.linear2)
        yield from _weight_and_bias(f"{name}.final_layer_norm", layer.norm2)
    norm = model.layers.norm
    assert isinstance(norm, nn.LayerNorm)
    yield from _weight_and_bias("biogpt.layer_norm", norm)


def _marian_config(shape: dict[str, Any], types: int, positions: int) -> dict[str, Any]:
    """Post-norm, one scaled embedding for source, target and softmax, no output bias."""
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
            yield from _marian_layer(f"model.{side}.layers.{number}", layer)


def _marian_layer(name: str, layer: nn.Module) -> NamedWeights:
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
    """The three projections, which torch keeps in one matrix, one after another."""
    for part, weight, bias in zip("qkv", source.in_proj_weight.chunk(3), source.in_proj_bias.chunk(3), strict=True):
        yield f"{name}.{part}_proj.weight", weight
        yield f"{name}.{part}_proj.bias", bias
    yield from _weight_and_bias(f"{name}.out_proj", source.out_proj)


def _weight_and_bias(name: str, source: nn.Linear | nn.LayerNorm) -> NamedWeights:
    yield f"{name}.weight", source.weight
    yield f"{name}.bias", source.bias


ARCHITECTURES = {  # by the name of the pipeline's architecture
    "decoder": Architecture(
        "BioGptForCausalLM",
        "biogpt",
        _biogpt_config,
        # A text begins after the end of another.
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
