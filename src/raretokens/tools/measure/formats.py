"""A table in a file, of which rows are read when they are asked for; nothing is unpickled or executed."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError

KINDS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER = 100 << 20  # bytes; safetensors allows no more
GAP = 8  # rows that are read along rather than skipped


@dataclass(frozen=True)
class Stored:
    """Where a table lies: rows x width numbers of a kind, row after row."""

    path: Path
    start: int  # byte of the first number
    shape: tuple[int, ...]
    kind: str  # a key of KINDS
    name: str = ""  # of the tensor

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Rows of rising ids, float32 (float64 where they are stored so); neighbours are read at once."""
        size = self.shape[1] * KINDS[self.kind].itemsize
        found = []
        with open(self.path, "rb", buffering=0) as file:
            for part in _near(rows):
                file.seek(self.start + int(part[0]) * size)
                raw = np.fromfile(file, KINDS[self.kind], (int(part[-1]) - int(part[0]) + 1) * self.shape[1])
                if len(raw) % self.shape[1] or not len(raw):
                    raise UserError(f"{self.path}: ends before row {part[-1]} of {self.name or 'the table'}")
                found.append(raw.reshape(-1, self.shape[1])[part - part[0]])
        return self.numbers(np.concatenate(found)) if found else np.empty((0, self.shape[1]), np.float32)

    def numbers(self, raw: np.ndarray) -> np.ndarray:
        """bfloat16 is the upper half of float32."""
        if self.kind == "BF16":
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw if self.kind == "F64" else raw.astype(np.float32)


def _near(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of rising ids without a gap worth skipping."""
    cuts = np.flatnonzero(np.diff(rows) > GAP) + 1
    return (part for part in np.split(rows, cuts) if len(part))


def safetensors(path: Path) -> dict[str, Stored]:
    """Tensors of a file that are stored as plain numbers. Raises UserError where it is no such file."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(HEADER, size - 8):
            raise UserError(f"{path}: not a safetensors file, or cut off")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {
        name: Stored(path, 8 + length + told["data_offsets"][0], tuple(told["shape"]), told["dtype"], name)
        for name, told in header.items()
    }


def npy(path: Path) -> Stored:
    """A two-dimensional array of floats. Raises UserError on any other, so also on objects, which would be unpickled."""
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = read(file)
        except ValueError as error:
            raise UserError(f"{path}: not an array of NumPy ({error})") from None
        kind = next((kind for kind, known in KINDS.items() if known == dtype and kind != "BF16"), None)
        if kind is None or len(shape) != 2 or by_column:
            raise UserError(
                f"{path}: {shape} of {dtype}: should be rows x width of float16, float32 or float64, by row"
            )
        return Stored(path, file.tell(), shape, kind)


def checked(stored: Stored) -> Stored:
    """Raises UserError where it is no table of floats, or the file is shorter than it says."""
    what = f"{stored.path}: {stored.name or 'the table'}"
    if stored.kind not in KINDS:
        raise UserError(f"{what}: stored as {stored.kind}; allowed: {', '.join(NAMES.values())}")
    if len(stored.shape) != 2 or min(stored.shape) < 1:
        raise UserError(f"{what}: shape {stored.shape}; a table has rows and columns")
    if os.path.getsize(stored.path) < stored.start + math.prod(stored.shape) * KINDS[stored.kind].itemsize:
        raise UserError(f"{stored.path}: is cut off")
    return stored


def tree(path: Path) -> dict[str, Any]:
    """A JSON file; an empty dictionary where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
