"""Bytes that autograd saves in a forward pass, measured on tensors without memory."""

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from raretokens.models.registry import build

FEW, MORE = 2, 4  # sequences in two forward passes; their difference gives the bytes per sequence
FUSED_POSITIONS = 16  # so few that attention scores, which fused kernels do not save, are negligible
SHORT = (8, 16, 24)  # positions of three passes of a recurrent model, because a pass of many positions takes long


@dataclass(frozen=True)
class ForwardPass:
    """Dimensions of a model, and the bytes that its forward pass saves for the backward pass, final hidden states included.

    `fixed` and `per_sequence` are NaN if the computation depends on the values of its tensors.
    """

    parameters: int
    width: int  # embedding dimension
    positions: int  # positions of a sequence, on each side
    fixed: float  # bytes independent of the number of sequences, such as weights cast to bfloat16
    per_sequence: float  # bytes per sequence


@cache
def measure_forward(
    architecture: str, shape: str, rows: int, positions: int, sides: int, is_half: bool, device: str
) -> ForwardPass:
    """Measure the saved bytes of a forward pass with FakeTensorMode, which allocates no memory.

    Fused attention on a GPU does not save its scores. The measurement uses CPU kernels, which may save them. For a GPU it
    therefore uses FUSED_POSITIONS positions, and scales the result.

    Args:
        shape: shape of the model as JSON.
        rows: rows of the embedding matrix.
        positions: positions of a sequence.
        sides: number of inputs of the model.
        is_half: use bfloat16.
        device: cpu or cuda; this machine need not have it.
    """
    shape_values = json.loads(shape)
    with torch.device("meta"):
        model = build(architecture, shape_values, rows, positions)
    parameters, width = sum(parameter.numel() for parameter in model.parameters()), model.embedding.shape[1]
    is_fused = device == "cuda" and "heads" in shape_values
    without_onednn = torch.backends.mkldnn.flags(enabled=False, allow_tf32=None)  # its LSTM hides its workspace
    try:
        with without_onednn, FakeTensorMode(allow_non_fake_inputs=True):
            model.to_empty(device="cpu")
            if is_fused and positions > FUSED_POSITIONS:
                fixed, per_sequence = _bytes(model, FUSED_POSITIONS, sides, is_half) * (1, positions / FUSED_POSITIONS)
            else:
                found = _extrapolated(model, positions, sides, is_half)
                fixed, per_sequence = _bytes(model, positions, sides, is_half) if found is None else found
    except RuntimeError:  # an operation reads the values of a tensor
        fixed = per_sequence = math.nan
    return ForwardPass(parameters, width, positions, float(fixed), float(per_sequence))


def _bytes(model: nn.Module, positions: int, sides: int, is_half: bool) -> NDArray[np.float64]:
    """Return the fixed bytes, and the bytes per sequence."""
    few, more = (saved_bytes(model, sequences, positions, sides, is_half) for sequences in (FEW, MORE))
    per_sequence = (more - few) / (MORE - FEW)
    return np.array([few - FEW * per_sequence, per_sequence])


def _extrapolated(model: nn.Module, positions: int, sides: int, is_half: bool) -> NDArray[np.float64] | None:
    """Return _bytes() of a recurrent model from SHORT positions, or None if they do not grow linearly there."""
    if positions <= SHORT[-1] or not any(isinstance(layer, nn.RNNBase) for layer in model.modules()):
        return None
    first, second, third = (_bytes(model, short, sides, is_half) for short in SHORT)
    growth = second - first
    is_linear = bool(np.all(third - second == growth))  # not so with attention scores, for example
    return first + growth * (positions - SHORT[0]) / (SHORT[1] - SHORT[0]) if is_linear else None


def saved_bytes(model: nn.Module, sequences: int, positions: int, sides: int, is_half: bool) -> float:
    """Return the bytes of the tensors that outlive a forward pass on a CPU. A storage with several views counts once."""
    example = getattr(model, "example", None)  # a model may define its own inputs
    inputs = example(sequences, positions) if example else [torch.zeros(sequences, positions, dtype=torch.int64)] * sides
    storages = set()

    def keep(tensor: Tensor) -> Tensor:
        storages.add(tensor.untyped_storage())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        states = _loss_inputs(model, model(*inputs), inputs[-1])
    storages.update(tensor.untyped_storage() for tensor in states)
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    return float(sum(storage.nbytes() for storage in storages - own))


def _loss_inputs(model: nn.Module, output: Any, targets: Tensor) -> tuple[Tensor, ...]:
    """Return the inputs of the loss. A recurrent model computes them from its output."""
    if not isinstance(output, tuple):
        return (output,)
    return (*output, *([model.nll(output.hidden, targets)] if hasattr(model, "nll") else model.softmax(output.hidden)))
