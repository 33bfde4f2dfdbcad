"""One file an architecture, found by its name: SHAPE, MODEL and flops_per_token.

SHAPE names what a size of it declares and the kind of each (shapes.py). MODEL is a module with a parameter `table` that maps
ids to final hidden states; it is built from the number of types, `positions` (of the longest sequence) and what SHAPE names.
flops_per_token(shape, vocabulary, positions) counts operations. TIME, where there is one, says why hours do not follow from them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

# The fused inference kernels round differently from the training graph; probes must see the trained function.
torch.backends.mha.set_fastpath_enabled(False)


def build(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> nn.Module:
    """Freshly initialised model. positions: the longest sequence."""
    # Imported by name: a run depends on the file of its own architecture alone.
    return _module(architecture).MODEL(vocabulary, positions=positions, **shape)


def flops_per_token(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Operations of one forward and backward pass for one target token, in sequences of so many positions.

    Chowdhery et al. (2022, PaLM, appendix B): 6 for each weight of a matrix product (2 forward, 4 backward; the tied table counts
    once, as the softmax) and 12 * width * positions a layer for attention scores and their use, causal or not. Nothing is added
    for what is computed twice, norms, activations, the optimizer or the objective, so that utilisation compares across methods.
    """
    return _module(architecture).flops_per_token(shape, vocabulary, positions)


def _module(architecture: str) -> Any:
    return import_module(f"raretokens.models.{architecture}")
