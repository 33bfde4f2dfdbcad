"""Copies of model folders with some rows replaced, and the proof that nothing else differs.

Files are copied, not linked: a program that saves a model over the copy would otherwise write into the original.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.files import sync
from raretokens.measure.stored_matrix import STORED, StoredMatrix

CHUNK = 1 << 22  # bytes that are read at once


class Equality(NamedTuple):
    """What two folders have in common to the bit."""

    tensors: int  # other tensors than the changed ones, in files of weights
    rows: dict[str, int]  # changed tensor -> number of its other rows
    files: int  # files of the folder that contain no changed tensor


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`. Rename it to `path` at the end of the block; delete it if the block fails.

    Raises:
        UserError: if `path` exists.
    """
    given, path = path, path.absolute()
    if os.path.lexists(path):
        raise UserError(f"{given}: exists; name a new folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o777 & ~mask)
        yield part
        for file in list_files(part):
            sync(part / file)
        if os.path.lexists(path):
            raise UserError(f"{given}: exists; name a new folder")
        os.rename(part, path)
        sync(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # absent after the rename


def list_files(folder: Path) -> list[Path]:
    """Return the paths of all files below a folder, relative to the folder and sorted. Links are followed."""
    found = (
        Path(root, name).relative_to(folder) for root, _, names in os.walk(folder, followlinks=True) for name in names
    )
    return sorted(found, key=str)


def copy_folder(folder: Path, new: Path) -> dict[str, str]:
    """Copy all files to a folder. Return the SHA-256 of each file by its relative path."""
    hashes = {}
    for file in list_files(folder):
        target = new / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (folder / file).is_file():
            raise UserError(f"{folder / file}: neither a file nor a link to one")
        digest = hashlib.sha256()
        with open(folder / file, "rb") as source, open(target, "wb") as copy:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                copy.write(chunk)
        target.chmod((folder / file).stat().st_mode & 0o777 | 0o600)
        hashes[file.as_posix()] = digest.hexdigest()
    return hashes


def write_rows(path: Path, tensor: StoredMatrix, rows: np.ndarray, encoded: np.ndarray) -> None:
    """Overwrite rows of a tensor in a copy of its file.

    Args:
        tensor: the tensor in the original file, which has the same place in the copy.
        encoded: rows x width, as the file stores them.
    """
    with open(path, "r+b") as file:
        for row, numbers in zip(rows.tolist(), encoded, strict=True):
            file.seek(tensor.start + row * _row_size(tensor))
            file.write(numbers.tobytes())


def compare_folders(
    folder: Path, new: Path, changed: Mapping[str, np.ndarray], tensors: Mapping[str, StoredMatrix]
) -> Equality:
    """Read both folders and check that they are equal byte by byte, apart from the changed rows.

    Args:
        changed: name of a tensor -> ids of its changed rows.
        tensors: all tensors of the original's files of weights.

    Raises:
        UserError: if anything else differs. The message names the file, and the tensor or row.
    """
    files = list_files(folder)
    if files != list_files(new):
        raise UserError(f"{new}: has other files than {folder}")
    by_file: dict[Path, list[StoredMatrix]] = {}
    for name in changed:
        by_file.setdefault(_place(tensors[name], folder), []).append(tensors[name])
    for file in files:
        with open(folder / file, "rb") as one, open(new / file, "rb") as other:
            for tensor in sorted(by_file.get(file, []), key=lambda tensor: tensor.start):
                _compare_bytes(one, other, tensor.start - one.tell())
                _compare_rows(one, other, tensor, changed[tensor.name])
            _compare_bytes(one, other, None)
    others = {name: tensors[name].shape[0] - len(rows) for name, rows in changed.items()}
    return Equality(len(tensors) - len(changed), others, len(files) - len(by_file))


def _place(tensor: StoredMatrix, folder: Path) -> Path:
    return tensor.path.relative_to(folder)


def _row_size(tensor: StoredMatrix) -> int:
    return tensor.shape[1] * STORED[tensor.dtype].itemsize


def _compare_bytes(one, other, size: int | None) -> None:
    """Compare the next bytes of two files, or all further bytes if `size` is None."""
    while size is None or size > 0:
        wanted = CHUNK if size is None else min(CHUNK, size)
        chunk = one.read(wanted)
        if chunk != other.read(wanted):
            raise UserError(f"{other.name}: differs from {one.name} outside the rows taken, before byte {one.tell()}")
        if not chunk:
            return
        size = None if size is None else size - len(chunk)


def _compare_rows(one, other, tensor: StoredMatrix, changed: np.ndarray) -> None:
    width, size = _row_size(tensor), tensor.shape[0]
    is_changed = np.zeros(size, bool)
    is_changed[changed] = True
    step = max(1, CHUNK // width)
    for start in range(0, size, step):
        number = min(step, size - start) * width
        blocks = [np.frombuffer(file.read(number), np.uint8).reshape(-1, width) for file in (one, other)]
        differs = (blocks[0] != blocks[1]).any(axis=1) & ~is_changed[start : start + step]
        if differs.any():
            row = start + int(differs.argmax())
            raise UserError(f"{other.name}: row {row} of {tensor.name} differs, and was not taken")
