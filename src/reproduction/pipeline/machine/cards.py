"""GPUs for which a run can be planned: those in cards.yaml, and the GPU that torch detects."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import torch

from raretokens.errors import UserError
from raretokens.yaml_files import read_yaml

TABLE = Path(__file__).parent / "cards.yaml"
DEFAULT = "h200"


@dataclass(frozen=True)
class Card:
    name: str
    device: str  # pattern of torch's names for the card
    memory: float  # bytes
    flops: float  # peak dense bfloat16 operations per second
    float32: float  # peak float32 operations per second, without TF32

    def peak(self, precision: str) -> float:
        """Return the peak operations per second of matrix products in `precision` (float32 or bfloat16)."""
        return self.flops if precision == "bfloat16" else self.float32


def card(name: str | None = None) -> Card:
    """Return the card of a name. Without a name, return the GPU that torch detects, or an H200 if there is none.

    Raises:
        UserError: the name is unknown, or cards.yaml has no row for the detected GPU. The message lists the known cards.
    """
    known = _cards()
    if name is None and torch.cuda.is_available():
        device = torch.cuda.get_device_name()
        if (found := find_card(device)) is None:
            raise UserError(f"GPU {device!r} is not known; choose one with --gpu: {', '.join(known)}")
        return replace(found, memory=torch.cuda.get_device_properties(0).total_memory)
    name = (name or DEFAULT).lower()
    if name not in known:
        raise UserError(f"--gpu: {name!r} is not known; allowed: {', '.join(known)}")
    return known[name]


def find_card(device: str) -> Card | None:
    """Return the card with this torch name, or None if cards.yaml lacks it."""
    fitting = [card for card in _cards().values() if fnmatchcase(device, card.device)]
    return max(fitting, key=lambda card: len(card.device), default=None)


@cache
def _cards() -> dict[str, Card]:
    return {
        name: Card(name, row["torch"], row["memory"] * 1e9, row["tflops"] * 1e12, row["float32"] * 1e12)
        for name, row in read_yaml(TABLE).items()
    }
