"""What an architecture keeps for the backward pass, measured on one short sequence: a new one needs no formula anywhere."""

from collections.abc import Mapping
from functools import cache
from json import loads
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from raretokens.models.building import build

TYPES, LONGEST = 16, 64  # of the table, and of the sequence


@cache
def kept(architecture: str, shape: str, sides: int, positions: int) -> float:
    """Bytes of a position, in float32; shape: as JSON."""
    declared: Mapping[str, Any] = loads(shape)
    length, saved = min(positions, LONGEST), {}
    with (
        torch.random.fork_rng(devices=[]),
        saved_tensors_hooks(lambda one: saved.setdefault(one.data_ptr(), one), lambda one: one),
    ):
        model = build(architecture, declared, TYPES, length)
        model(*(torch.full((1, length), TYPES - 1),) * sides)
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    return sum(one.nbytes for place, one in saved.items() if place not in weights) / length
