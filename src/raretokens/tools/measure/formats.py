"""Files with embedding matrices: safetensors, NumPy arrays and word vectors. Rows are read from the file on demand.

The first bytes of a file determine its format, or else its suffix. Nothing is unpickled or executed. To add a format, add a
reader and its line in FORMATS.
"""

import gzip
import json
import math
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure import word_vectors

DTYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
MAX_HEADER = 100 << 20  # bytes; the limit of safetensors
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")  # suffixes of weights that are not read
COPIED = 4096  # rows per block when a matrix is copied
MAX_GAP = 8  # rows; smaller gaps between ids are read and discarded


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in a file: rows x width numbers in row-major order."""

    path: Path
    start: int  # byte offset of the first number
    shape: tuple[int, ...]
    dtype: str  # a key of DTYPES, if the matrix is readable
    name: str = ""  # name of the tensor

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by ascending ids, as float32 (float64 if stored as float64). Neighbouring rows are read together."""
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
        if self.dtype == "BF16":  # bfloat16 is the upper half of float32
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw if self.dtype == "F64" else raw.astype(np.float32)

    def checked(self) -> "StoredMatrix":
        """Return the matrix. Raise UserError if it is not a readable matrix of floats, or the file is truncated."""
        place = f"{self.path}: {self.name or 'the matrix'}"
        if self.dtype not in DTYPES:
            raise UserError(f"{place}: stored as {self.dtype}; allowed: {', '.join(DTYPE_NAMES.values())}")
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise UserError(f"{place}: shape {self.shape}; an embedding matrix has rows and columns")
        if os.path.getsize(self.path) < self.start + math.prod(self.shape) * DTYPES[self.dtype].itemsize:
            raise UserError(f"{self.path}: is cut off before the end of {self.name or 'the matrix'}")
        return self


def _split_at_gaps(rows: np.ndarray) -> Iterator[np.ndarray]:
    cuts = np.flatnonzero(np.diff(rows) > MAX_GAP) + 1
    return (part for part in np.split(rows, cuts) if len(part))


class FileContents(NamedTuple):
    """The contents of a file."""

    tensors: dict[str, StoredMatrix]
    words: list[str] | None = None  # words of the rows, for word vectors
    folder: Any = None  # temporary folders of the matrices; deleted when no longer referenced
    notes: Sequence[str] = ()  # assumptions


def read_safetensors(path: Path) -> FileContents:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise UserError(f"{path}: not a safetensors file, or cut off")
        try:
            header = json.loads(file.read(length))
            return FileContents(
                {
                    name: StoredMatrix(path, 8 + length + entry["data_offsets"][0], tuple(entry["shape"]), entry["dtype"], name)
                    for name, entry in header.items()
                    if name != "__metadata__"
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise UserError(f"{path}: not a safetensors file: its header does not describe tensors") from None


def read_npy(path: Path) -> FileContents:
    """Read a two-dimensional array of floats. Reject other arrays, in particular objects, which would be unpickled."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError) as error:
        raise UserError(f"{path}: should be rows x width of float16, float32 or float64 ({error})") from None
    code = next((code for code, known in DTYPES.items() if known == array.dtype.newbyteorder("<") and code != "BF16"), None)
    if code is None or array.ndim != 2:
        raise UserError(
            f"{path}: {array.shape} of {array.dtype}: should be rows x width of float16, float32 or float64"
        )
    notes = []
    if array.shape[0] < array.shape[1]:
        shape = f"{array.shape[0]} rows of width {array.shape[1]}"
        notes.append(f"{path.name} has {shape}; transpose it if its columns are the tokens")
    if array.flags.c_contiguous and array.dtype == DTYPES[code]:
        return FileContents({"": StoredMatrix(path, array.offset, array.shape, code)}, notes=notes)
    folder = tempfile.TemporaryDirectory()  # a matrix in column-major or big-endian order is copied, row by row
    with open(f"{folder.name}/rows", "wb") as rows:
        for start in range(0, len(array), COPIED):
            rows.write(np.ascontiguousarray(array[start : start + COPIED], DTYPES[code]).tobytes())
    return FileContents({"": StoredMatrix(Path(folder.name) / "rows", 0, array.shape, code)}, None, folder, notes)


def read_words(path: Path) -> FileContents:
    """Read word vectors in text or binary form."""
    found = word_vectors.read_binary(path) if _is_word2vec(path) else word_vectors.read_text(path)
    shape = len(found.words), found.width
    return FileContents(
        {"": StoredMatrix(Path(found.folder.name) / "rows", 0, shape, "F32")}, found.words, found.folder, found.notes
    )


def _is_word2vec(path: Path) -> bool:
    """Whether a file begins as word2vec's binary form: rows and width, then bytes that are not a line of text."""
    with open(path, "rb") as file:
        declared, line = word_vectors.declared_shape(file.readline(100)), file.readline(1 << 20)
    if declared is None or word_vectors.parse_line(line, declared[1]) is not None:
        return False
    try:
        return any(ord(character) < 32 and not character.isspace() for character in line.decode())
    except UnicodeDecodeError:
        return True


def read_gzip(path: Path) -> FileContents:
    """Unpack a compressed file of any other format into a temporary folder, and read it."""
    folder = tempfile.TemporaryDirectory()
    inner = Path(folder.name) / path.stem
    try:
        with gzip.open(path) as packed, open(inner, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be unpacked ({error})") from None
    found = read_file(inner)
    return found._replace(folder=(folder, found.folder))


def read_zip(path: Path) -> FileContents:
    """Read NumPy arrays (.npz), of which one may contain the words. Reject other zip files."""
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
            if any(name.endswith(".pkl") for name in names):  # a checkpoint of torch
                refuse(path)
            if not all(name.endswith(".npy") for name in names):
                raise UserError(f"{path}: a zip file of {', '.join(names[:4])}; unpack it, and measure one of its files")
            folder = tempfile.TemporaryDirectory()
            files = [Path(packed.extract(name, folder.name)) for name in names]
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path}: cannot be unpacked ({error})") from None
    found: dict[str, FileContents] = {}
    words: list[list[str]] = []
    for file in files:
        try:
            found[file.stem] = read_npy(file)
        except UserError:
            words += _read_strings(file)
    if not found:
        raise UserError(f"{path}: no array of rows x width of float16, float32 or float64 among {', '.join(names[:8])}")
    tensors = {name: replace(one.tensors[""], name=name) for name, one in found.items()}
    rows = {tensor.shape[0] for tensor in tensors.values()}
    return FileContents(
        tensors,
        next((some for some in words if {len(some)} == rows), None),
        (folder, *(one.folder for one in found.values())),
        [note for one in found.values() for note in one.notes],
    )


def _read_strings(file: Path) -> list[list[str]]:
    """Return the words of an array file as the only entry of a list, or [] if the array is not a list of words."""
    try:
        array = np.load(file, allow_pickle=False)
    except ValueError:  # an array of objects
        return []
    return [array.tolist()] if array.ndim == 1 and array.dtype.kind == "U" else []


def refuse(path: Path) -> FileContents:
    raise UserError(
        f"{path}: not read: such a file is a program that runs when it is opened; save the model as safetensors "
        "(save_pretrained(folder, safe_serialization=True)), and vectors of gensim by save_word2vec_format()"
    )


def name_way_out(path: Path) -> FileContents:
    with open(path, "rb") as file:
        head = file.read(40)
    raise UserError(f"{path}: " + next(line for begin, line in OTHERS.items() if head.startswith(begin)))


OTHERS = {  # first bytes of formats that are not read -> their name and the alternative
    b"GGUF": "a GGUF file of llama.cpp; measure the safetensors folder that it was converted from",
    b"\x08": "an ONNX file; measure the safetensors folder that it was exported from",
    b"\xba\x16\x4f\x2f": "a model of fastText; measure its .vec file, or save its vectors by gensim's save_word2vec_format()",
    b"version https://git-lfs": "only a pointer to the file in Git LFS; git lfs pull downloads it",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
}


class Format(NamedTuple):
    """A file format, recognised by the first bytes of a file or else by its suffix."""

    suffixes: tuple[str, ...]
    has_signature: Callable[[bytes], bool]
    read: Callable[[Path], FileContents]


FORMATS = (
    Format(
        (".safetensors",),
        lambda head: head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER,
        read_safetensors,
    ),
    Format((), lambda head: head.startswith(tuple(OTHERS)), name_way_out),
    Format((".npy",), lambda head: head.startswith(b"\x93NUMPY"), read_npy),
    Format((".gz",), lambda head: head.startswith(b"\x1f\x8b"), read_gzip),
    Format((".npz", ".zip"), lambda head: head.startswith(b"PK\x03\x04"), read_zip),  # includes checkpoints of torch
    Format((), lambda head: head.startswith((b"\x80", b"\x89HDF")), refuse),  # pickle, HDF5
    Format((), lambda head: word_vectors.declared_shape(head.partition(b"\n")[0]) is not None, read_words),
    Format((*PICKLED, ".model", ".kv", ".wordvectors"), lambda head: False, refuse),
    Format((".txt", ".vec"), lambda head: True, read_words),
)
SUFFIXES = {suffix: known for known in reversed(FORMATS) for suffix in known.suffixes}


def read_file(path: Path) -> FileContents:
    """Find the matrices of a file. Raise UserError if its format is not supported or the file is malformed."""
    with open(path, "rb") as file:
        head = file.read(40)
    if not head:
        raise UserError(f"{path}: is empty")
    known = next(known for known in FORMATS if known.has_signature(head))
    if known is FORMATS[-1]:
        known = SUFFIXES.get(path.suffix, known)
    return known.read(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file, or an empty dictionary if there is no file."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
