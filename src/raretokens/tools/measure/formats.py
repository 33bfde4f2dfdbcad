"""Files with embedding matrices: safetensors, NumPy arrays and word vectors, whose rows are read from the file on demand.

Nothing is unpickled or executed. A further format is a reader and its line in FORMATS.
"""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError

DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
MAX_HEADER = 100 << 20  # bytes; safetensors allows no more
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")  # suffixes of weights that are not read
MAX_GAP = 8  # rows that are read along rather than skipped


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in a file: rows x width numbers, row after row."""

    path: Path
    start: int  # byte of the first number
    shape: tuple[int, ...]
    dtype: str  # a key of DTYPES, if the matrix is readable
    name: str = ""  # of the tensor

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of ascending ids, float32 (float64 if stored so); neighbouring rows are read at once."""
        size = self.shape[1] * DTYPES[self.dtype].itemsize
        parts = []
        with open(self.path, "rb", buffering=0) as file:
            for ids in _split_at_gaps(rows):
                file.seek(self.start + int(ids[0]) * size)
                raw = np.fromfile(file, DTYPES[self.dtype], (int(ids[-1]) - int(ids[0]) + 1) * self.shape[1])
                if len(raw) % self.shape[1] or not len(raw):
                    raise UserError(f"{self.path}: ends before row {ids[-1]} of {self.name or 'the matrix'}")
                parts.append(raw.reshape(-1, self.shape[1])[ids - ids[0]])
        return self._to_float(np.concatenate(parts)) if parts else np.empty((0, self.shape[1]), np.float32)

    def _to_float(self, raw: np.ndarray) -> np.ndarray:
        if self.dtype == "BF16":  # the upper half of float32
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw if self.dtype == "F64" else raw.astype(np.float32)

    def checked(self) -> "StoredMatrix":
        """Return the matrix. Raises UserError if it is not a matrix of floats, or the file is cut off."""
        place = f"{self.path}: {self.name or 'the matrix'}"
        if self.dtype not in DTYPES:
            raise UserError(f"{place}: stored as {self.dtype}; allowed: {', '.join(DTYPE_NAMES.values())}")
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise UserError(f"{place}: shape {self.shape}; an embedding matrix has rows and columns")
        if os.path.getsize(self.path) < self.start + math.prod(self.shape) * DTYPES[self.dtype].itemsize:
            raise UserError(f"{self.path}: is cut off")
        return self


def _split_at_gaps(rows: np.ndarray) -> Iterator[np.ndarray]:
    cuts = np.flatnonzero(np.diff(rows) > MAX_GAP) + 1
    return (part for part in np.split(rows, cuts) if len(part))


class FileContents(NamedTuple):
    """What a reader finds in a file."""

    tensors: dict[str, StoredMatrix]
    words: list[str] | None = None  # of the rows, in word vectors
    folder: tempfile.TemporaryDirectory | None = None  # holds the numbers for as long as it is referenced


def read_safetensors(path: Path) -> FileContents:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise UserError(f"{path}: not a safetensors file, or cut off")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return FileContents(
        {
            name: StoredMatrix(path, 8 + length + entry["data_offsets"][0], tuple(entry["shape"]), entry["dtype"], name)
            for name, entry in header.items()
        }
    )


def read_npy(path: Path) -> FileContents:
    """A two-dimensional array of floats; any other is refused, so also objects, which would be unpickled."""
    with open(path, "rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
        except ValueError as error:
            raise UserError(f"{path}: not a NumPy array ({error})") from None
        code = next((code for code, known in DTYPES.items() if known == dtype and code != "BF16"), None)
        if code is None or len(shape) != 2 or is_fortran:
            raise UserError(
                f"{path}: {shape} of {dtype}: should be rows x width of float16, float32 or float64, by row"
            )
        return FileContents({"": StoredMatrix(path, file.tell(), shape, code)})


def read_word_vectors(path: Path) -> FileContents:
    """A word and its numbers on each line, as word2vec, GloVe and gensim write them; rows and width may stand before them."""
    folder = tempfile.TemporaryDirectory()
    words, width, declared = [], 0, None
    with (
        open(path, encoding="utf-8", newline="\n", errors="replace") as text,
        open(f"{folder.name}/rows", "wb") as rows,
    ):
        for number, line in enumerate(text, start=1):
            word, *values = line.rstrip(" \r\n").split(" ")
            if number == 1 and len(values) == 1 and word.isdigit() and values[0].isdigit():
                declared = int(word)
                continue
            width = width or len(values)
            try:
                row = np.array(values, np.float32)
            except ValueError:
                row = np.empty(0)
            if len(row) != width or not width:
                raise UserError(f"{path}: line {number}: should be a word and {width or 'its'} numbers")
            words.append(word)
            rows.write(row.tobytes())
    if declared not in (None, len(words)) or not words:
        raise UserError(f"{path}: {len(words)} rows, but {declared or 'at least 1'} should be there")
    return FileContents({"": StoredMatrix(Path(folder.name) / "rows", 0, (len(words), width), "F32")}, words, folder)


def refuse(path: Path) -> FileContents:
    raise UserError(
        f"{path}: not read: such a file is a program that runs when it is opened; save the model as safetensors "
        "(save_pretrained(folder, safe_serialization=True))"
    )


class Format(NamedTuple):
    """A file format, known by its suffix, or else by the first bytes of the file."""

    suffixes: tuple[str, ...]
    has_signature: Callable[[bytes], bool]
    read: Callable[[Path], FileContents]


FORMATS = (
    Format(
        (".safetensors",),
        lambda head: head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER,
        read_safetensors,
    ),
    Format((".npy",), lambda head: head.startswith(b"\x93NUMPY"), read_npy),
    Format(
        (*PICKLED, ".model", ".kv"),
        lambda head: head.startswith((b"\x80", b"PK\x03\x04", b"\x89HDF")),  # pickle, zip archives of torch, HDF5
        refuse,
    ),
    Format((".txt", ".vec"), lambda head: True, read_word_vectors),
)
SUFFIXES = {suffix: known for known in FORMATS for suffix in known.suffixes}


def read_file(path: Path) -> FileContents:
    """Find the matrices of a file. Raises UserError if its format is refused, or the file does not follow it."""
    with open(path, "rb") as file:
        head = file.read(16)
    found = SUFFIXES.get(path.suffix) or next(known for known in FORMATS if known.has_signature(head))
    return found.read(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's contents; an empty dictionary if there is no file."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
