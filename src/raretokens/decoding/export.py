"""Our Transformers as CTranslate2 models: the specifications are filled by hand from the torch weights.

CTranslate2's own converters assume other position tables and special rows; by hand the two agree to rounding.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from torch import nn

from raretokens.models.decoder import Decoder
from raretokens.models.encoder_decoder import EncoderDecoder
from raretokens.subword.vocabulary import EOS, SPECIALS, UNK

ACTIVATIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}


def export(model: EncoderDecoder, pieces: tuple[str, ...], activation: str, into: Path) -> None:
    """Write a CTranslate2 model folder; pieces[i] is the token of id i."""
    layer = model.encoder.layers[0]
    shape = (len(model.encoder.layers), len(model.decoder.layers))
    spec = transformer_spec.TransformerSpec.from_config(
        shape, layer.self_attn.num_heads, pre_norm=False, activation=ACTIVATIONS[activation]
    )
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _stack(side, stack.layers, model)
    spec.decoder.projection.weight = _array(model.table)
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    end, unknown = SPECIALS[EOS], SPECIALS[UNK]
    spec.config.decoder_start_token = spec.config.eos_token = end
    spec.config.unk_token, spec.config.add_source_eos = unknown, False
    _save(spec, into)


def export_language_model(
    model: Decoder, activation: str, into: Path, pieces: Sequence[str] | None = None
) -> list[str]:
    """Write a CTranslate2 model folder of a language model; returns the token of each id: its number, without pieces."""
    layers = model.layers.layers
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        len(layers), layers[0].self_attn.num_heads, pre_norm=True, activation=ACTIVATIONS[activation]
    )
    _stack(spec.decoder, layers, model)
    _norm(spec.decoder.layer_norm, model.layers.norm)
    spec.decoder.projection.weight = _array(model.table)
    names = list(pieces or map(str, range(len(model.table))))
    spec.register_vocabulary(names)
    spec.config.bos_token = spec.config.eos_token = names[EOS]
    spec.config.unk_token = names[UNK]
    _save(spec, into)
    return names


def _save(spec: transformer_spec.TransformerSpec | transformer_spec.TransformerDecoderModelSpec, into: Path) -> None:
    spec.validate()
    spec.optimize()
    into.mkdir(parents=True, exist_ok=True)
    spec.save(str(into))


def _stack(target, layers: nn.ModuleList, model: EncoderDecoder | Decoder) -> None:
    embeddings = target.embeddings[0] if isinstance(target.embeddings, list) else target.embeddings
    embeddings.weight = _array(model.table)
    target.scale_embeddings = True
    target.position_encodings.encodings = _array(model.positions)
    for to, layer in zip(target.layer, layers, strict=True):
        _layer(to, layer)


def _layer(target, source: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> None:
    _self_attention(target.self_attention, source.self_attn, source.norm1)
    last_norm = source.norm2
    if isinstance(source, nn.TransformerDecoderLayer):
        _cross_attention(target.attention, source.multihead_attn, source.norm2)
        last_norm = source.norm3
    _linear(target.ffn.linear_0, source.linear1.weight, source.linear1.bias)
    _linear(target.ffn.linear_1, source.linear2.weight, source.linear2.bias)
    _norm(target.ffn.layer_norm, last_norm)


def _self_attention(
    target: attention_spec.MultiHeadAttentionSpec, source: nn.MultiheadAttention, norm: nn.LayerNorm
) -> None:
    _linear(target.linear[0], source.in_proj_weight, source.in_proj_bias)  # queries, keys, values
    _linear(target.linear[1], source.out_proj.weight, source.out_proj.bias)
    _norm(target.layer_norm, norm)


def _cross_attention(
    target: attention_spec.MultiHeadAttentionSpec, source: nn.MultiheadAttention, norm: nn.LayerNorm
) -> None:
    width = source.embed_dim
    _linear(target.linear[0], source.in_proj_weight[:width], source.in_proj_bias[:width])
    _linear(target.linear[1], source.in_proj_weight[width:], source.in_proj_bias[width:])  # keys, values
    _linear(target.linear[2], source.out_proj.weight, source.out_proj.bias)
    _norm(target.layer_norm, norm)


def _linear(target: common_spec.LinearSpec, weight: torch.Tensor, bias: torch.Tensor) -> None:
    target.weight, target.bias = _array(weight), _array(bias)


def _norm(target: common_spec.LayerNormSpec, source: nn.LayerNorm) -> None:
    target.gamma, target.beta = _array(source.weight), _array(source.bias)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().contiguous().numpy()
