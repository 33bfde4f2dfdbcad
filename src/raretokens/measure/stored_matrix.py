"""Matrices in files, whose rows are read on demand. Integers are dequantised row by row."""

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError

DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
STORED = DTYPES | {"I8": np.dtype("<i1")}  # int8 is readable with its scale
BLOCK = 4096  # rows per block
HEAD = 40  # first bytes of a file, which determine its format


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in a file: rows x width numbers in row-major order. Integers are divided by their scale."""

    path: Path
    start: int  # byte offset of the first number
    shape: tuple[int, ...]
    dtype: str  # a key of DTYPES, or I8 with a scale, if the matrix is readable
    name: str = ""  # name of the tensor
    scale: float | None = None  # of integers
    origin: str = ""  # how the numbers were stored before a reader dequantised them, such as Q4_K

    @property
    def form(self) -> str:
        """How the numbers are stored, such as `float16` or `int8 with one scale of 40`."""
        return self.origin or (DTYPE_NAMES[self.dtype] if self.scale is None else f"int8 with one scale of {self.scale:.6g}")

    @property
    def signature_suffix(self) -> str:
        """The addition to the signature of each metric: how integers became floats."""
        how = self.origin if self.scale is None else f"int8-over-{self.scale:.6g}"
        return f"|dequantised:{how}" if how else ""

    @property
    def _cut_off(self) -> str:
        return f"{self.path}: is cut off before the end of {self.name or 'the matrix'}"

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by ids, as float32 (float64 if stored as float64). Raise UserError if the file has become too short."""
        raw = np.empty((len(rows), self.shape[1]), STORED[self.dtype])
        row_size = self.shape[1] * raw.itemsize
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)  # of the runs of consecutive rows, each of which is read at once
        with open(self.path, "rb") as file:  # no memory map: a file that shrinks would kill the process
            for start, end in pairwise([*starts.tolist(), len(rows)]):
                file.seek(self.start + int(rows[start]) * row_size)
                if file.readinto(raw[start:end]) < (end - start) * row_size:
                    raise UserError(self._cut_off)
        if self.scale is not None:
            return raw / np.float32(self.scale)
        if self.dtype == "BF16":  # bfloat16 is the upper half of float32
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw if self.dtype == "F64" else raw.astype(np.float32, copy=False)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the ids and the numbers of all rows, block by block."""
        for start in range(0, self.shape[0], BLOCK):
            ids = np.arange(start, min(start + BLOCK, self.shape[0]))
            yield ids, self.read(ids)

    def checked(self) -> "StoredMatrix":
        """Return the matrix. Raise UserError if it is not a readable matrix of floats, or the file is truncated."""
        where = f"{self.path}: {self.name or 'the matrix'}"
        if self.dtype not in DTYPES and (self.scale is None or self.dtype != "I8"):
            allowed = f"allowed: {', '.join(DTYPE_NAMES.values())}"
            raise UserError(f"{where}: stored as {self.dtype}; {allowed}; measure the model before it was quantised")
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise UserError(f"{where}: shape {self.shape}; an embedding matrix has rows and columns")
        if self.path.stat().st_size < self.start + math.prod(self.shape) * STORED[self.dtype].itemsize:
            raise UserError(self._cut_off)
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise UserError(f"{where}: its scale is {self.scale}; should be positive")
        return self


def read_head(path: Path) -> bytes:
    """Return the first HEAD bytes of a file."""
    with open(path, "rb") as file:
        return file.read(HEAD)


def store(
    blocks: Iterable[np.ndarray], dtype: str = "F32", name: str = ""
) -> tuple[StoredMatrix, tempfile.TemporaryDirectory[str]]:
    """Write blocks of rows to a temporary file. Return the matrix, and the folder, whose end deletes the file."""
    folder = tempfile.TemporaryDirectory()
    path, rows, width = Path(folder.name) / "rows", 0, 0
    with open(path, "wb") as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, STORED[dtype]).tobytes())
            rows, width = rows + len(block), block.shape[1]
    return StoredMatrix(path, 0, (rows, width), dtype, name), folder


class FileContents(NamedTuple):
    """The contents of a file."""

    tensors: dict[str, StoredMatrix]
    words: list[str] | None = None  # words or tokens of the rows, if the file has them
    folder: Any = None  # temporary folders of the matrices; deleted when no longer referenced
    notes: Sequence[str] = ()  # assumptions
    roles: Mapping[str, str] = {}  # role of an embedding (see embeddings.py) -> tensor, if the format says so
    has_output_bias: bool | None = None  # None: no output embedding is known
    settings: Mapping[str, Any] = {}  # ids of special tokens, as in config.json
