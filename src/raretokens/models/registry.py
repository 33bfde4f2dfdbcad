"""Kinds of values that an architecture's SHAPE names, and how they are checked.

One file an architecture, found by its name: SHAPE, MODEL and flops_per_token.

SHAPE names what a size of it declares and the kind of each (shapes.py). MODEL is a module with a parameter `table` that maps
ids to final hidden states; it is built from the number of types, `positions` (of the longest sequence) and what SHAPE names.
flops_per_token(shape, vocabulary, positions) counts operations. TIME, where there is one, says why hours do not follow from them.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import nn

from raretokens.errors import UserError, nearest
from raretokens.literals import literal

MODELS = Path(__file__).parent


def architectures() -> list[str]:
    """Names of the architectures: files of models/ that declare a SHAPE."""
    return sorted(path.stem for path in MODELS.glob("*.py") if literal(path, "SHAPE"))


def shape_of(architecture: str, values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The values that an architecture's SHAPE names, checked; UserError names place, key, value and what is allowed."""
    declared = literal(MODELS / f"{architecture}.py", "SHAPE") if architecture in architectures() else None
    if declared is None:
        raise UserError(f"{place}.architecture: {architecture!r} has no file; {nearest(architecture, architectures())}")
    from pydantic import Field, PositiveFloat, create_model  # `measure` builds models without pydantic

    from raretokens.schema import Strict
    from raretokens.yaml_files import checked

    kinds: dict[str, Any] = {
        "count": Annotated[int, Field(gt=0, le=1 << 16)],
        "layers": Annotated[int, Field(gt=0, le=1000)],
        "positive": PositiveFloat,
        "probability": Annotated[float, Field(ge=0.0, lt=1.0)],
        "flag": bool,
    }
    fields = {name: (Literal[*kind] if isinstance(kind, list) else kinds[kind], ...) for name, kind in declared.items()}
    return checked(create_model("Shape", __base__=Strict, **fields), dict(values), place, joint=".").model_dump()


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
