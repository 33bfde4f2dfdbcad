"""Weight files of inference engines: CTranslate2's model.bin, Marian's .bin, and GGUF files of llama.cpp.

The first two are lists of named tensors. Only headers are read here, and rows later, by StoredMatrix. The layout of
CTranslate2 is that of `ctranslate2.specs.model_spec`, which writes such files but does not read them. Marian's layout is that
of its source file `common/binary.cpp`. The package gguf reads GGUF files.
"""

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.embeddings import INPUT, OUTPUT, combine_roles
from raretokens.measure.stored_matrix import BLOCK, DTYPES, FileContents, StoredMatrix, store

CTRANSLATE2_VERSIONS = (4, 5, 6)  # of the binary form; before 4, tensors had no type
CTRANSLATE2_DTYPES = ("F32", "I8", "I16", "I32", "F16", "BF16")
CTRANSLATE2_ROLES = {
    "encoder/embeddings/weight": "encoder input",
    "encoder/embeddings_0/weight": "encoder input",
    "decoder/embeddings/weight": "decoder input",
    "decoder/projection/weight": "output",
}
# Marian's types are sums of a class and of the bytes of a number. 0x4000 marks tensors that are quantised for intgemm.
MARIAN_DTYPES = {0x0404: "F32", 0x0402: "F16", 0x0408: "F64", 0x0101: "I8", 0x4101: "I8"}
MARIAN_ROLES = {
    "Wemb": ("encoder input", "decoder input"),
    "encoder_Wemb": ("encoder input",),
    "decoder_Wemb": ("decoder input",),
    "decoder_ff_logit_out_Wt": ("output",),
}
MARIAN_OUTPUT = "decoder_ff_logit_out_W"  # width x rows, so its rows cannot be read one by one
GGUF_ROLES = {"token_embd.weight": INPUT, "output.weight": OUTPUT}
GGUF_SPECIALS = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}  # names of GGUF -> of config.json
MAX_NAME = 10_000
DAMAGED = (struct.error, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError)


@dataclass
class Reader:
    """A binary file that is read from its beginning. Its methods raise an exception of DAMAGED where it ends too early."""

    file: BinaryIO

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Return little-endian numbers of a format of `struct`."""
        return struct.unpack(f"<{form}", self.file.read(struct.calcsize(f"<{form}")))

    def name(self, length: int) -> str:
        """Return a name that ends in a zero byte."""
        name = self.file.read(min(length, MAX_NAME)).removesuffix(b"\0").decode()
        if not name.isprintable():
            raise ValueError(name)
        return name

    def skip(self, length: int) -> int:
        """Skip a tensor. Return the byte where it starts."""
        start = self.file.tell()
        self.file.seek(start + length)
        return start


def _read(path: Path, read: Callable[[Path, Reader], FileContents]) -> FileContents:
    with open(path, "rb") as file:
        try:
            return read(path, Reader(file))
        except DAMAGED:
            raise UserError(f"{path}: is cut off, or describes no tensor, at byte {file.tell()}") from None


# CTranslate2.


def is_ctranslate2(head: bytes) -> bool:
    """Whether a file begins as CTranslate2's: a version, and the name of a specification in ASCII."""
    version, length = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:6], "little")
    name = head[6 : 6 + length]
    return version < 100 and 6 < length <= len(name) and name[:-1].isalnum() and b"Spec" in name and name[-1:] == b"\0"


def read_ctranslate2(path: Path) -> FileContents:
    """Read the tensors of a model.bin."""
    return _read(path, _ctranslate2)


def _ctranslate2(path: Path, reader: Reader) -> FileContents:
    (version,) = reader.numbers("I")
    if version not in CTRANSLATE2_VERSIONS:
        raise UserError(f"{path}: version {version} of CTranslate2's binary form; allowed: 4 to 6")
    reader.name(*reader.numbers("H"))
    _, count = reader.numbers("II")
    tensors: dict[str, StoredMatrix] = {}
    for _ in range(count):
        name = reader.name(*reader.numbers("H"))
        shape = reader.numbers(f"{reader.numbers('B')[0]}I")
        dtype, length = reader.numbers("BI")
        tensors[name] = StoredMatrix(path, reader.skip(length), shape, CTRANSLATE2_DTYPES[dtype], name)
    (count,) = reader.numbers("I")
    aliases = {reader.name(*reader.numbers("H")): reader.name(*reader.numbers("H")) for _ in range(count)}
    roles: dict[str, list[str]] = {}  # tensor -> roles
    for name, role in CTRANSLATE2_ROLES.items():
        if (source := aliases.get(name, name)) in tensors:
            roles.setdefault(source, []).append(role)
    folders = [folder for name in roles if (folder := _dequantise(tensors, name))]
    has_output = any("output" in given for given in roles.values())
    has_bias = "decoder/projection/bias" in {*tensors, *aliases} if has_output else None
    return FileContents(tensors, None, folders, roles=combine_roles(roles), has_output_bias=has_bias)


def _dequantise(tensors: dict[str, StoredMatrix], name: str) -> Any:
    """Turn a tensor of int8 with one scale for each row into floats, in a temporary folder that is returned."""
    tensor, scales = tensors[name], tensors.get(f"{name}_scale")
    if tensor.dtype != "I8" or scales is None or scales.dtype != "F32" or scales.shape != tensor.shape[:1]:
        return None  # other integers are refused when the tensor is read
    divisors = np.fromfile(scales.path, "<f4", *scales.shape, offset=scales.start)
    integers = replace(tensor, scale=1.0).checked()
    if len(divisors) < tensor.shape[0] or not (np.isfinite(divisors) & (divisors > 0)).all():
        raise UserError(f"{tensor.path}: {scales.name}: scales should be positive")
    floats, folder = store(rows / divisors[ids, None] for ids, rows in integers.blocks())
    tensors[name] = replace(floats, name=name, origin="int8 with one scale per row")
    return folder


# Marian.


def is_marian(head: bytes) -> bool:
    """Whether a file begins as Marian's: version 1, and the header of a first tensor."""
    version, count, name, dtype = struct.unpack("<4Q", head[:32]) if len(head) >= 32 else (0,) * 4
    return version == 1 and 1 <= count <= 1_000_000 and 1 <= name <= MAX_NAME and 0x0100 < dtype < 0x10000


def read_marian(path: Path) -> FileContents:
    """Read the tensors of Marian's binary form. A quantised embedding becomes floats by the scale that follows its integers."""
    return _read(path, _marian)


def _marian(path: Path, reader: Reader) -> FileContents:
    _, count = reader.numbers("2Q")
    headers = [reader.numbers("4Q") for _ in range(count)]  # bytes of the name, type, axes, bytes of the numbers
    names = [reader.name(header[0]) for header in headers]
    shapes = [reader.numbers(f"{axes}i") for _, _, axes, _ in headers]
    reader.skip(*reader.numbers("Q"))  # padding, so that tensors are aligned
    tensors: dict[str, StoredMatrix] = {}
    for (_, dtype, _, length), name, shape in zip(headers, names, shapes, strict=True):
        tensor = StoredMatrix(path, reader.skip(length), shape, MARIAN_DTYPES.get(dtype, f"type {dtype:#x}"), name)
        if tensor.dtype == "I8" and name in MARIAN_ROLES:
            (scale,) = np.fromfile(path, "<f4", 1, offset=tensor.start + math.prod(shape)).tolist()
            tensor = replace(tensor, scale=scale)
        tensors[name] = tensor
    return FileContents(tensors, **_marian_roles(tensors))


def _marian_roles(names: Mapping[str, StoredMatrix]) -> Mapping[str, Any]:
    """Return roles, output bias and notes as fields of FileContents, from the names of Marian's tensors."""
    found = {name: list(roles) for name, roles in MARIAN_ROLES.items() if name in names}
    notes = []
    if MARIAN_OUTPUT in names:
        notes.append(f"output embedding left out: {MARIAN_OUTPUT} is stored as width x rows")
    elif "decoder_ff_logit_out_Wt" not in found and (last := next((n for n in ("decoder_Wemb", "Wemb") if n in found), None)):
        found[last].append("output")  # tied: no other tensor can be the output embedding
    return {"roles": combine_roles(found), "has_output_bias": "decoder_ff_logit_out_b" in names, "notes": notes}


# GGUF.


def read_gguf(path: Path) -> FileContents:
    """Read the embeddings and the tokens of a GGUF file. Quantised rows become floats by the package gguf."""
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ModuleNotFoundError:
        raise UserError(f"{path}: a GGUF file of llama.cpp; it needs gguf: pip install gguf") from None
    try:
        file = GGUFReader(path)
    except DAMAGED as error:
        raise UserError(f"{path}: gguf cannot read it: {error}") from None
    tensors, folders = {}, []
    for tensor in (one for one in file.tensors if one.name in GGUF_ROLES):
        kind, shape = tensor.tensor_type, tuple(reversed(tensor.shape.tolist()))
        matrix = StoredMatrix(path, tensor.data_offset, shape, kind.name, tensor.name)
        if kind.name not in DTYPES:
            rows, folder = store(dequantize(tensor.data[first : first + BLOCK], kind) for first in range(0, shape[0], BLOCK))
            matrix = replace(rows, name=tensor.name, origin=kind.name)
            folders.append(folder)
        tensors[tensor.name] = matrix
    fields = {name.rpartition(".")[2]: field.contents() for name, field in file.fields.items()}
    roles = {name: [GGUF_ROLES[name]] for name in tensors}
    is_causal = fields.get("causal") is not False
    if is_causal and "output.weight" not in roles and "token_embd.weight" in roles:
        roles["token_embd.weight"].append(OUTPUT)  # llama.cpp then takes the input embedding
    settings = {f"{name}_token_id": fields.get(f"{of}_token_id") for of, name in GGUF_SPECIALS.items()}
    return FileContents(tensors, fields.get("tokens"), folders, (), combine_roles(roles), False if is_causal else None, settings)
