"""GPUs for which a run can be planned: those in cards.yaml, and the GPU that torch detects."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from raretokens.errors import UserError
from raretokens.yaml_files import read_yaml

TABLE = Path(__file__).parent / "cards.yaml"
DEFAULT = "h200"


@dataclass(frozen=True)
class Card:
    name: str
    memory: float  # bytes
    flops: float  # peak dense bfloat16 operations per second
    float32: float  # peak float32 operations per second, without TF32
    bandwidth: float  # bytes of its memory per second

    def peak(self, precision: str) -> float:
        """Return the peak operations per second of matrix products in `precision` (float32 or bfloat16)."""
        return self.flops if precision == "bfloat16" else self.float32


def card(name: str | None = None) -> Card:
    """Return the card of a name. Without a name, return the GPU that torch detects, or an H200 if there is none.

    Raises:
        UserError: the name is unknown, or cards.yaml has no row for the detected GPU. The message lists the known cards.
    """
    rows = _rows()
    if name is None and torch.cuda.is_available():
        device = torch.cuda.get_device_name()
        if (name := _seen(rows, device)) is None:
            raise UserError(f"GPU {device!r} is not known; choose one with --gpu: {', '.join(rows)}")
        return _made(name, rows[name], torch.cuda.get_device_properties(0).total_memory)
    name = (name or DEFAULT).lower()
    if name not in rows:
        raise UserError(f"--gpu: {name!r} is not known; allowed: {', '.join(rows)}")
    return _made(name, rows[name], rows[name]["memory"] * 1e9)


def find_card(device: str) -> Card | None:
    """Return the card with this torch name, or None if cards.yaml lacks it."""
    rows = _rows()
    name = _seen(rows, device)
    return None if name is None else _made(name, rows[name], rows[name]["memory"] * 1e9)


def peak_flops(device: str) -> float | None:
    """Return the peak dense bfloat16 operations per second of a GPU by its torch name; None if cards.yaml lacks it."""
    found = find_card(device)
    return None if found is None else found.flops


def _rows() -> dict[str, dict]:
    return read_yaml(TABLE)


def _made(name: str, row: dict, memory: float) -> Card:
    return Card(name, memory, row["tflops"] * 1e12, row["float32"] * 1e12, row["bandwidth"] * 1e9)


def _seen(rows: dict[str, dict], device: str) -> str | None:
    fitting = [name for name, row in rows.items() if fnmatchcase(device, row["torch"])]
    return max(fitting, key=lambda name: len(rows[name]["torch"]), default=None)
