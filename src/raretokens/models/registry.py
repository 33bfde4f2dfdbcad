"""Architectures: one file each, found by its name.

Such a file declares SHAPE, the values that a model config names and the kind of each (KINDS); MODEL, a module with a parameter
`embedding` that maps ids to final hidden states, built from the number of token types, `positions` (the longest sequence) and the
shape; and flops_per_token(shape, vocabulary, positions). TIME, where there is one, says why hours do not follow from operations.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# The fused inference kernels round differently from the training graph; predictions must see the trained function.
torch.backends.mha.set_fastpath_enabled(False)


def build(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> nn.Module:
    """Freshly initialised model. positions: the longest sequence."""
    # Imported by name: a run depends on the file of its own architecture alone.
    return _module(architecture).MODEL(vocabulary, positions=positions, **shape)


STORED_NAMES = {"embedding": "table"}  # names in files of weights, which stay as they were so that old runs can be read


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the names that files have."""
    return {STORED_NAMES.get(name, name): tensor for name, tensor in weights.items()}


def load_weights(model: nn.Module, file: Path) -> None:
    """Load a file of weights. Raises RuntimeError where they are those of another model."""
    from safetensors.torch import load_file  # of those that need weights alone

    names = {in_file: name for name, in_file in STORED_NAMES.items()}
    model.load_state_dict({names.get(name, name): tensor for name, tensor in load_file(file).items()})


def flops_per_token(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Operations of one forward and backward pass for one target token, in sequences of so many positions.

    Chowdhery et al. (2022, PaLM, appendix B): 6 for each weight of a matrix product (2 forward, 4 backward; the tied
    embedding counts once, as the softmax) and 12 * width * positions a layer for attention scores and their use, causal
    or not. Recomputation, norms, activations, optimizer and objective are left out, so utilisation compares across methods.
    """
    return _module(architecture).flops_per_token(shape, vocabulary, positions)


def _module(architecture: str) -> Any:
    return import_module(f"raretokens.models.{architecture}")
