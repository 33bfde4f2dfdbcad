"""Export Transformers to CTranslate2, and check which device and compute type CTranslate2 supports.

The model specifications are filled from the torch weights directly, because CTranslate2's own converters assume other position
embeddings and special tokens. The outputs of torch and CTranslate2 agree up to rounding.
"""

import ctypes
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from torch import nn

from raretokens.errors import UserError
from raretokens.vocabulary import EOS, SPECIALS, UNK
from reproduction.training.models.decoder import Decoder
from reproduction.training.models.encoder_decoder import EncoderDecoder

CUBLAS = ("libcublasLt.so.12", "libcublas.so.12")  # in loading order: the second depends on the first


def best_device() -> str:
    """Return `cuda` if CTranslate2 finds a GPU (see CUDA_VISIBLE_DEVICES), else `cpu`.

    Raises:
        UserError: There is a GPU, but cuBLAS is missing.
    """
    if not ctranslate2.get_cuda_device_count():
        return "cpu"
    _load_cublas()
    return "cuda"


def checked_compute_type(wanted: str, device: str) -> str:
    """Return the compute type of `nmt.decoding.compute_type` if the device supports it.

    CTranslate2 would silently fall back to another compute type, which changes translations.

    Raises:
        UserError: The device does not support the compute type.
    """
    supported = ctranslate2.get_supported_compute_types(device)
    if wanted not in supported:
        allowed = [name for name in ("float32", "bfloat16", "int8") if name in supported]
        raise UserError(
            f"nmt.decoding.compute_type: {wanted!r}: this {device} does not have it; allowed here: {', '.join(allowed)}"
        )
    return wanted


def _load_cublas() -> None:
    """Load cuBLAS of CUDA 12, which CTranslate2 opens by name. The installed torch may only include that of CUDA 13.

    The dynamic linker finds loaded libraries by name, so loading the copy of the package nvidia-cublas-cu12 is enough.
    """
    package = find_spec("nvidia")
    folders = [Path(folder) / "cublas/lib" for folder in package.submodule_search_locations or ()] if package else []
    for name in CUBLAS:
        for candidate in (*(folder / name for folder in folders), name):
            try:
                ctypes.CDLL(str(candidate), mode=ctypes.RTLD_GLOBAL)
                break
            except OSError:
                continue
        else:
            raise UserError(
                f"{name}: CTranslate2 needs it on a GPU; pip install nvidia-cublas-cu12, or hide the GPU: CUDA_VISIBLE_DEVICES="
            )


ACTIVATIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}


def export(model: EncoderDecoder, tokens: tuple[str, ...], activation: str, into: Path) -> None:
    """Write an encoder-decoder as a CTranslate2 model folder; tokens[i] is the token of id i."""
    layer = model.encoder.layers[0]
    shape = (len(model.encoder.layers), len(model.decoder.layers))
    spec = transformer_spec.TransformerSpec.from_config(
        shape, layer.self_attn.num_heads, pre_norm=False, activation=ACTIVATIONS[activation]
    )
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _stack(side, stack.layers, model)
    spec.decoder.projection.weight = _array(model.embedding)
    spec.register_source_vocabulary(list(tokens))
    spec.register_target_vocabulary(list(tokens))
    end, unknown = SPECIALS[EOS], SPECIALS[UNK]
    spec.config.decoder_start_token = spec.config.eos_token = end
    spec.config.unk_token, spec.config.add_source_eos = unknown, False
    _save(spec, into)


def export_language_model(
    model: Decoder, activation: str, into: Path, tokens: Sequence[str] | None = None
) -> list[str]:
    """Write a language model as a CTranslate2 model folder. Return the token of each id, which is the id if `tokens` is None."""
    layers = model.layers.layers
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        len(layers), layers[0].self_attn.num_heads, pre_norm=True, activation=ACTIVATIONS[activation]
    )
    _stack(spec.decoder, layers, model)
    _norm(spec.decoder.layer_norm, model.layers.norm)
    spec.decoder.projection.weight = _array(model.embedding)
    names = list(tokens or map(str, range(len(model.embedding))))
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
    embeddings.weight = _array(model.embedding)
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
