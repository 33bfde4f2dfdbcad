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

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        held.append(tensor)  # else another one could lie where it lay
        return tensor

    held: list[torch.Tensor] = []
    with torch.random.fork_rng(devices=[]), saved_tensors_hooks(keep, lambda tensor: tensor):
        model = build(architecture, declared, TYPES, length)
        model(*(torch.full((1, length), TYPES - 1),) * sides)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    return sum(bytes_ for place, bytes_ in saved.items() if place not in weights) / length
