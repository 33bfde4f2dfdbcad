"""Weight files of inference engines: CTranslate2's model.bin, and Marian's .bin and .npz.

Both binary forms are a list of named tensors. Only headers are read here, and rows later, by StoredMatrix. The layout of
CTranslate2 is that of `ctranslate2.specs.model_spec`, which writes such files but does not read them. Marian's layout is that
of its source file `common/binary.cpp`.
"""

import math
import os
import struct
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure.embeddings import combine_roles
from raretokens.tools.measure.stored_matrix import HEAD, INTEGERS, FileContents, StoredMatrix

SUFFIXES = (".bin", ".npz")  # of weight files in a folder; the first that a folder has counts
CTRANSLATE2_VERSIONS = (4, 5, 6)  # of the binary form; before 4, tensors had no type
CTRANSLATE2_DTYPES = ("F32", "I8", "I16", "I32", "F16", "BF16")
CTRANSLATE2_ROLES = {
    "encoder/embeddings/weight": "encoder input",
    "encoder/embeddings_0/weight": "encoder input",
    "decoder/embeddings/weight": "decoder input",
    "decoder/projection/weight": "output",
}
# Marian's types are sums of a class and of the bytes of a number. 0x4000 marks tensors that are quantised for intgemm.
MARIAN_DTYPES = {0x0404: "F32", 0x0402: "F16", 0x0408: "F64", 0x0101: "I8", 0x4101: "I8", 0x4102: "I16"}
MARIAN_ROLES = {
    "Wemb": ("encoder input", "decoder input"),
    "encoder_Wemb": ("encoder input",),
    "decoder_Wemb": ("decoder input",),
    "decoder_ff_logit_out_Wt": ("output",),
}
MARIAN_OUTPUT = "decoder_ff_logit_out_W"  # width x rows, so its rows cannot be read one by one
MAX_TENSORS, MAX_NAME, MAX_AXES = 1_000_000, 10_000, 8


@dataclass
class Reader:
    """A binary file that is read from its beginning. Raise UserError where it ends too early or contains something else."""

    file: BinaryIO

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Return little-endian numbers of a format of `struct`."""
        return struct.unpack(f"<{form}", self.read(struct.calcsize(f"<{form}")))

    def read(self, length: int) -> bytes:
        found = self.file.read(length)
        if len(found) < length:
            raise UserError(f"{self.file.name}: is cut off at byte {self.file.tell()}")
        return found

    def name(self, length: int) -> str:
        """Return a name that ends in a zero byte."""
        self.check(1 <= length <= MAX_NAME)
        name = self.read(length).rstrip(b"\0").decode(errors="replace")
        self.check("\ufffd" not in name and name.isprintable())
        return name

    def skip(self, length: int) -> int:
        """Skip a tensor. Return the byte where it starts."""
        start = self.file.tell()
        if start + length > os.fstat(self.file.fileno()).st_size:
            raise UserError(f"{self.file.name}: is cut off before byte {start + length}")
        self.file.seek(start + length)
        return start

    def check(self, is_right: bool) -> None:
        if not is_right:
            raise UserError(f"{self.file.name}: contains no tensor where byte {self.file.tell()} should describe one")


def is_engine_file(file: BinaryIO) -> bool:
    """Whether a file is CTranslate2's or Marian's, by its first bytes, or by the names of its arrays."""
    head = file.read(HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _has_marian_arrays(file)
    return is_ctranslate2(head) or is_marian(head)


def _has_marian_arrays(file: BinaryIO) -> bool:
    try:
        with zipfile.ZipFile(file) as packed:
            return any(Path(name).stem in MARIAN_ROLES for name in packed.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):  # a damaged file
        return False


# CTranslate2.


def is_ctranslate2(head: bytes) -> bool:
    """Whether a file begins as CTranslate2's: a version, and the name of a specification in ASCII."""
    version, length = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:6], "little")
    name = head[6 : 6 + length]
    return version < 100 and 6 < length <= len(name) and name[:-1].isalnum() and b"Spec" in name and name[-1:] == b"\0"


def read_ctranslate2(path: Path) -> FileContents:
    """Read the tensors of a model.bin. Int8 and int16 embeddings become floats by the scales beside them."""
    tensors: dict[str, StoredMatrix] = {}
    with open(path, "rb") as file:
        reader = Reader(file)
        (version,) = reader.numbers("I")
        if version not in CTRANSLATE2_VERSIONS:
            raise UserError(f"{path}: version {version} of CTranslate2's binary form; allowed: 4 to 6")
        reader.name(*reader.numbers("H"))
        (_, count) = reader.numbers("II")
        for _ in range(count):
            name = reader.name(*reader.numbers("H"))
            (axes,) = reader.numbers("B")
            reader.check(axes <= MAX_AXES)
            shape = reader.numbers(f"{axes}I")
            dtype, length = reader.numbers("BI")
            reader.check(dtype < len(CTRANSLATE2_DTYPES))
            tensors[name] = StoredMatrix(path, reader.skip(length), shape, CTRANSLATE2_DTYPES[dtype], name)
        (count,) = reader.numbers("I")
        names = [(reader.name(*reader.numbers("H")), reader.name(*reader.numbers("H"))) for _ in range(count)]
    aliases = dict(names)
    roles: dict[str, list[str]] = {}  # tensor -> roles
    for name, role in CTRANSLATE2_ROLES.items():
        if (source := aliases.get(name, name)) in tensors:
            roles.setdefault(source, []).append(role)
    has_output = any("output" in given for given in roles.values())
    has_bias = "decoder/projection/bias" in {*tensors, *aliases} if has_output else None
    for name in roles:
        scale = aliases.get(f"{name}_scale", f"{name}_scale")
        if tensors[name].dtype in INTEGERS and scale in tensors:
            tensors[name] = replace(tensors[name], scales=_read_scales(tensors[scale]))
    return FileContents(tensors, roles=combine_roles(roles), has_output_bias=has_bias)


def _read_scales(tensor: StoredMatrix) -> np.ndarray:
    size = math.prod(tensor.shape)
    return replace(tensor, shape=(size, 1)).checked().read(np.arange(size))[:, 0]


# Marian.


def is_marian(head: bytes) -> bool:
    """Whether a file begins as Marian's: version 1, and the header of a first tensor."""
    version, count, name, dtype = struct.unpack("<4Q", head[:32]) if len(head) >= 32 else (0,) * 4
    return version == 1 and 1 <= count <= MAX_TENSORS and 1 <= name <= MAX_NAME and 0x0100 < dtype < 0x10000


def read_marian(path: Path) -> FileContents:
    """Read the tensors of Marian's binary form. A quantised embedding becomes floats by the scale that follows its integers."""
    tensors: dict[str, StoredMatrix] = {}
    with open(path, "rb") as file:
        reader = Reader(file)
        _, count = reader.numbers("2Q")
        headers = [reader.numbers("4Q") for _ in range(count)]  # bytes of the name, type, axes, bytes of the numbers
        names = [reader.name(header[0]) for header in headers]
        shapes = []
        for header in headers:
            reader.check(header[2] <= MAX_AXES)
            shapes.append(reader.numbers(f"{header[2]}i"))
        reader.skip(*reader.numbers("Q"))  # padding, so that tensors are aligned
        for (_, dtype, _, length), name, shape in zip(headers, names, shapes, strict=True):
            tensor = StoredMatrix(path, reader.skip(length), shape, MARIAN_DTYPES.get(dtype, f"type {dtype:#x}"), name)
            is_scaled = tensor.dtype in INTEGERS and name in MARIAN_ROLES
            tensors[name] = replace(tensor, scales=_scale_behind(tensor, length)) if is_scaled else tensor
    return FileContents(tensors, **marian_roles(tensors))


def _scale_behind(tensor: StoredMatrix, length: int) -> np.ndarray | None:
    """Return the scale that follows the integers of a tensor of `length` bytes, or None."""
    size = math.prod(tensor.shape) * INTEGERS[tensor.dtype].itemsize
    return np.fromfile(tensor.path, "<f4", 1, offset=tensor.start + size) if 0 <= size <= length - 4 else None


def marian_roles(names: Collection[str]) -> Mapping[str, Any]:
    """Return roles, output bias and notes as fields of FileContents, from the names of Marian's tensors; {} for other files."""
    found = {name: list(roles) for name, roles in MARIAN_ROLES.items() if name in names}
    if not found:
        return {}
    notes = []
    if MARIAN_OUTPUT in names:
        notes.append(f"output embedding left out: {MARIAN_OUTPUT} is stored as width x rows")
    elif not any("output" in roles for roles in found.values()):
        last = next((name for name in ("decoder_Wemb", "Wemb") if name in found), None)
        if last:
            found[last].append("output")  # tied: no other tensor can be the output embedding
    return {"roles": combine_roles(found), "has_output_bias": "decoder_ff_logit_out_b" in names, "notes": notes}
