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

from raretokens.vocabulary import BOS, EOS, PAD
from reproduction.training.models.decoder import Decoder, sinusoids
from reproduction.training.models.encoder_decoder import EncoderDecoder

NamedWeights = Iterator[tuple[str, Tensor]]
UNUSED_POSITIONS = 2  # first rows of BioGPT's position embedding, which it never reads
# Modules of torch's Transformer layers -> their names in BioGPT and Marian, which name them alike.
SELF_ATTENTION = {"self_attn": "self_attn", "norm1": "self_attn_layer_norm", "linear1": "fc1", "linear2": "fc2"}
ENCODER_LAYER = SELF_ATTENTION | {"norm2": "final_layer_norm"}
DECODER_LAYER = SELF_ATTENTION | {
    "multihead_attn": "encoder_attn", "norm2": "encoder_attn_layer_norm", "norm3": "final_layer_norm"
}  # fmt: skip


class Architecture(NamedTuple):
    """A transformers architecture that computes the same function as an architecture of the pipeline."""

    model_class: str
    model_type: str
    config: Callable[[dict[str, Any]], dict[str, Any]]  # argument: model config
    generation: dict[str, Any]  # settings of generate()
    weights: Callable[[Any, int], NamedWeights]  # arguments: model, positions


def common_config(types: int, positions: int) -> dict[str, Any]:
    """Return what the configs of all architectures contain: a scaled embedding tied to the softmax, and special tokens."""
    return {
        "vocab_size": types,
        "max_position_embeddings": positions,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def _biogpt_config(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a config: pre-norm, final norm."""
    return {
        "hidden_size": shape["width"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "intermediate_size": shape["feedforward"],
        "hidden_act": shape["activation"],
        "hidden_dropout_prob": shape["dropout"],
        "attention_probs_dropout_prob": shape["attention_dropout"],
        "layer_norm_eps": 1e-5,
    }


def _biogpt_weights(model: Decoder, positions: int) -> NamedWeights:
    yield "biogpt.embed_tokens.weight", model.embedding
    encoded = sinusoids(positions, model.embedding.shape[1])
    yield "biogpt.embed_positions.weight", pad(encoded, (0, 0, UNUSED_POSITIONS, 0))
    yield from _layers("biogpt.layers", model.layers.layers)
    yield from ((f"biogpt.layer_norm.{name}", weight) for name, weight in model.layers.norm.named_parameters())


def _marian_config(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a config: post-norm, one embedding for source, target and softmax, no output bias."""
    sides = {
        f"{side}_{what}": shape[key]
        for side in ("encoder", "decoder")
        for what, key in (("layers", "layers"), ("attention_heads", "heads"), ("ffn_dim", "feedforward"))
    }
    return sides | {
        "d_model": shape["width"],
        "activation_function": shape["activation"],
        "dropout": shape["dropout"],
        "attention_dropout": shape["attention_dropout"],
        "share_encoder_decoder_embeddings": True,
        "is_encoder_decoder": True,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,
    }


def _marian_weights(model: EncoderDecoder, positions: int) -> NamedWeights:
    yield "model.shared.weight", model.embedding
    yield "final_logits_bias", torch.zeros(1, len(model.embedding))
    encoded = sinusoids(positions, model.embedding.shape[1])
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{side}.embed_positions.weight", encoded.clone()
        yield from _layers(f"model.{side}.layers", stack.layers)


def _layers(name: str, layers: nn.ModuleList) -> NamedWeights:
    """Yield the weights of Transformer layers. Torch concatenates the three projections of an attention in one matrix."""
    for number, layer in enumerate(layers):
        renamed = DECODER_LAYER if isinstance(layer, nn.TransformerDecoderLayer) else ENCODER_LAYER
        for path, weight in layer.named_parameters():
            module, _, parameter = path.partition(".")
            target = f"{name}.{number}.{renamed[module]}"
            if parameter.startswith("in_proj_"):
                for part, third in zip("qkv", weight.chunk(3), strict=True):
                    yield f"{target}.{part}_proj.{parameter.removeprefix('in_proj_')}", third
            else:
                yield f"{target}.{parameter}", weight


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
