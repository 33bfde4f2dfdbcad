"""Registry of architectures: each architecture is one file, found by its name.

Each file declares

* SHAPE: the keys of a model config and the kind of each value (KINDS in shapes.py);
* MODEL: a torch module with a parameter `embedding`, built from the number of token types, `positions` (the longest sequence) and
  the shape, which maps ids to final hidden states;
* flops_per_token(shape, vocabulary, positions);
* TIME, optionally: why the training time does not follow from the number of operations;
* COMPILES, optionally: True if torch.compile makes one graph of the model, and at most one more for all other input shapes.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# The fused inference kernels round differently from the training graph. Predictions must use the function that was trained.
torch.backends.mha.set_fastpath_enabled(False)


def build(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> nn.Module:
    """Return a freshly initialised model; vocabulary: number of token types; positions: the longest sequence."""
    # The import by name makes a run depend only on the file of its own architecture.
    return _module(architecture).MODEL(vocabulary, positions=positions, **shape)


STORED_NAMES = {"embedding": "table"}  # names in weight files, kept so that old runs stay readable


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under their names in weight files."""
    return {STORED_NAMES.get(name, name): tensor for name, tensor in weights.items()}


def load_weights(model: nn.Module, file: Path) -> None:
    """Load a weight file into the model. Raises RuntimeError if the weights do not fit the model."""
    from safetensors.torch import load_file  # imported here because only some callers load weights

    names = {in_file: name for name, in_file in STORED_NAMES.items()}
    model.load_state_dict({names.get(name, name): tensor for name, tensor in load_file(file).items()})


def flops_per_token(architecture: str, shape: Mapping[str, Any], vocabulary: int, positions: int) -> float:
    """Return the operations of one forward and backward pass per target token, in sequences of `positions` tokens.

    The count follows Chowdhery et al. (2022, PaLM, appendix B). Each weight of a matrix product needs 6 operations: 2 forward and
    4 backward. The tied embedding matrix counts once, as the softmax. Attention scores and their use need 12 * width * positions
    operations a layer, causal or not. Recomputation, norms, activations, optimizer and objective are excluded, so that
    utilisation is comparable across methods.
    """
    return _module(architecture).flops_per_token(shape, vocabulary, positions)


def compiles(architecture: str) -> bool:
    """Return whether the model is compiled on a GPU by default."""
    return getattr(_module(architecture), "COMPILES", False)


def _module(architecture: str) -> Any:
    return import_module(f"reproduction.training.models.{architecture}")
