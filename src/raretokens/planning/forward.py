"""A model's forward pass, followed without numbers: the bytes that it keeps for the backward pass, of any architecture.

Tensors of torch's FakeTensorMode have sizes and types and no memory; saved_tensors_hooks shows each one that is kept.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel

from raretokens.models.registry import build

FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # the first that can be had
FEW, MORE = 2, 4  # sequences of two passes, whose difference is what a sequence takes


@dataclass(frozen=True)
class Forward:
    """Sizes of a model, and what its forward pass keeps besides the parameters, the final states included.

    once and sequence are NaN where what it computes depends on the numbers in its tensors.
    """

    parameters: int
    width: int  # of the table
    positions: int  # of a sequence, on each side
    once: float  # bytes for any number of sequences, such as weights cast to bfloat16
    sequence: float  # bytes for each sequence


@cache
def follow(architecture: str, shape: str, rows: int, positions: int, sides: int, is_half: bool, device: str) -> Forward:
    """Build the model and pass it sequences, both without memory.

    shape: as JSON; rows: of the table; sides: inputs of the model; device: cpu or cuda, whether or not it is there.
    """
    with torch.device("meta"):
        model = build(architecture, json.loads(shape), rows, positions)
    parameters, width = sum(parameter.numel() for parameter in model.parameters()), model.table.shape[1]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), kernels(device, is_half):
            model.to_empty(device="cpu")
            few, more = (kept(model, sequences, positions, sides, is_half) for sequences in (FEW, MORE))
    except RuntimeError:  # an operation that must read a tensor
        few = more = math.nan
    sequence = (more - few) / (MORE - FEW)
    return Forward(parameters, width, positions, few - FEW * sequence, sequence)


def kept(model: nn.Module, sequences: int, positions: int, sides: int, is_half: bool) -> float:
    """Bytes of the tensors on a CPU that outlive a forward pass; several views of one memory count once."""
    inputs = _inputs(model, sequences, positions, sides)
    storages = set()

    def keep(tensor: Tensor) -> Tensor:
        storages.add(tensor.untyped_storage())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        states = _head(model, model(*inputs), inputs[-1])
    storages.update(tensor.untyped_storage() for tensor in states)
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    return float(sum(storage.nbytes() for storage in storages - own))


def _head(model: nn.Module, output: Any, targets: Tensor) -> tuple[Tensor, ...]:
    """What the loss is given; a recurrent model makes it of its output."""
    if not isinstance(output, tuple):
        return (output,)
    return (*output, *([model.nll(output.hidden, targets)] if hasattr(model, "nll") else model.softmax(output.hidden)))


def _inputs(model: nn.Module, sequences: int, positions: int, sides: int) -> Sequence[Tensor]:
    """One of ids a side, unless the architecture says what else it is given."""
    example = getattr(model, "example", None)
    return example(sequences, positions) if example else [torch.zeros(sequences, positions, dtype=torch.int64)] * sides


@contextmanager
def kernels(device: str, is_half: bool) -> Iterator[None]:
    """What differs from a CPU without oneDNN, whose kernels are those that are followed.

    oneDNN's recurrent layers keep a workspace that torch gives no size without numbers; step by step they keep as much.
    They run in the type of autocast throughout, as oneDNN's and cuDNN's do. On a GPU attention is fused also with dropout, so no
    scores are kept, and masks of dropout are of one byte.
    """
    with ExitStack() as changed:
        changed.callback(setattr, torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled)
        torch.backends.mkldnn.enabled = False
        for name in ("lstm", "gru") if is_half else ():
            changed.enter_context(patch.object(torch._VF, name, _in_half(getattr(torch._VF, name))))
        if device == "cuda":
            changed.enter_context(patch.object(nn.functional, "dropout", _with_byte_masks(nn.functional.dropout)))
            fused = _fused(nn.functional.scaled_dot_product_attention)
            changed.enter_context(patch.object(nn.functional, "scaled_dot_product_attention", fused))
        yield


def _in_half(recurrent: Callable) -> Callable:
    def cast(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [cast(one) for one in value]
        return value.bfloat16() if isinstance(value, Tensor) and value.is_floating_point() else value

    return lambda *arguments: recurrent(*map(cast, arguments))


def _with_byte_masks(dropout: Callable) -> Callable:
    def masked(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return torch.native_dropout(input, p, True)[0] if training and p else dropout(input, p, training, inplace)

    return masked


def _fused(attention: Callable) -> Callable:
    """attention without its dropout, which is what makes a CPU write the scores down."""
    given = ("attn_mask", "dropout_p", "is_causal")

    def fused(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Tensor:
        with sdpa_kernel(FUSED):  # a model may ask for another one on a CPU
            return attention(query, key, value, **{**dict(zip(given, rest, strict=False)), **named, "dropout_p": 0.0})

    return fused
