"""Small shapes of every architecture, and one that the package does not have."""

import sys
from importlib import import_module
from inspect import signature
from typing import Any

from torch import nn

from reproduction.training.models.shapes import architectures

RECURRENT = "recurrent"
EVERY = [*architectures(), RECURRENT]
SMALL = {"layers": 2, "width": 32, "heads": 4, "feedforward": 64}
OTHERS = {"layers": 2, "count": 2, "positive": 1.0, "probability": 0.0, "flag": False}

sys.modules[f"reproduction.training.models.{RECURRENT}"] = import_module("tests.tiny.recurrent")


def sides(model: nn.Module) -> int:
    """Inputs that a model needs; a recurrent one may also be given what it carries."""
    given = signature(model.forward).parameters.values()
    return sum(parameter.default is parameter.empty for parameter in given)


def shape(architecture: str, **given: Any) -> dict[str, Any]:
    """What the architecture's SHAPE names: as given, else small; the first of several choices."""
    declared = import_module(f"reproduction.training.models.{architecture}").SHAPE
    plain = {name: kind[0] if isinstance(kind, list) else OTHERS[kind] for name, kind in declared.items()}
    return plain | {name: value for name, value in (SMALL | given).items() if name in declared}
