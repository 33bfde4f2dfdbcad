"""Files of a run's state folder with checksums: whole files, and the training log.

Damaged files are renamed or copied to damaged-<name> and never used. The log is an append-only file, so that memory and save time
do not grow with the number of steps.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

from raretokens.files import DIGITS, atomic_write

CHECKED = 32  # hexadecimal digits of a checksum
BLOCK = 1 << 20  # bytes per read
LOG = "log.tsv"  # name of the log
BUFFERED = 1000  # rows per write


class CheckedFiles:
    """Files of a folder with their checksums; is_main: whether this process writes, while all processes read.

    The checksum of a growing file has the form "<bytes>:<checksum>" and covers the first <bytes> bytes.
    """

    def __init__(self, folder: Path, is_main: bool) -> None:
        self.folder, self.is_main = folder, is_main
        self.sums: dict[str, str] = {}  # name -> checksum

    def keep(self, name: str, write: Callable[[Path], None]) -> None:
        """Write a file atomically with `write`, which receives a path, and record its checksum."""
        if self.is_main:
            with atomic_write(self.folder / name) as part:
                write(part)
            self.sums[name] = checksum(self.folder / name)

    def forget(self, names: Iterable[str]) -> None:
        if self.is_main:
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
                self.sums.pop(name, None)

    def damaged(self, sums: dict[str, str]) -> list[str]:
        """Return the names of missing or changed files, after setting them aside as damaged-<name>.

        A growing file is copied instead of renamed, because an earlier state may need only its intact beginning.
        """
        bad = [name for name, known in sums.items() if not _is(self.folder / name, known)]
        for name in bad:
            path, aside = self.folder / name, self.folder / f"damaged-{name}"
            if self.is_main and path.exists():
                shutil.copyfile(path, aside) if ":" in sums[name] else path.rename(aside)
        return bad


def _is(path: Path, known: str) -> bool:
    size, _, digits = known.rpartition(":")
    try:
        return checksum(path, int(size) if size else None) == digits
    except OSError:
        return False


def digest(path: Path, size: int | None = None) -> Any:
    """Return the sha256 object of a file, or of its first `size` bytes. Raises OSError if the file is shorter."""
    found, left = hashlib.sha256(), size
    with open(path, "rb") as file:
        while block := file.read(BLOCK if left is None else min(BLOCK, left)):
            found.update(block)
            left = None if left is None else left - len(block)
    if left:
        raise OSError(f"{path}: {left} bytes are missing")
    return found


def checksum(path: Path, size: int | None = None) -> str:
    """Return the first digits of the sha256 of a file, or of its first `size` bytes."""
    return short(digest(path, size))


def short(sha256: Any) -> str:
    return sha256.hexdigest()[:CHECKED]


class HashingFile:
    """Wrapper of a file that is written sequentially, with the checksum of the bytes so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def checksum(self) -> str:
        return short(self._digest)


class Position(NamedTuple):
    """Position in a log from which a saved state continues."""

    sum: str = f"0:{short(hashlib.sha256())}"  # checksum of the rows up to here, in the form of growing files
    last: dict | None = None  # last row

    @property
    def size(self) -> int:
        """Bytes up to here."""
        return int(self.sum.partition(":")[0])


class Log:
    """log.tsv of a run in its state folder; is_main: whether this process writes the file.

    The last row is written only when the next row arrives, because its validation NLL may still be added.
    """

    def __init__(self, folder: Path, is_main: bool = True) -> None:
        self.path, self.is_main = folder / LOG, is_main
        self.last: dict | None = None
        self._is_written = True  # whether the last row is written or buffered
        self._lines: list[str] = []
        self._size, self._digest = 0, hashlib.sha256()
        self._published: int | None = None  # bytes that were copied by `publish`

    def resume(self, position: Position) -> None:
        """Continue after a position; later rows, which a killed process wrote, are removed."""
        self.last, self._size = position.last, position.size
        if self.is_main and self.path.exists():
            os.truncate(self.path, position.size)
            self._digest = digest(self.path)

    def append(self, row: dict) -> None:
        self._seal()
        self.last, self._is_written = row, False

    def position(self) -> Position:
        """Write all rows and return the end position of the log."""
        self._seal()
        self._write()
        return Position(f"{self._size}:{short(self._digest)}", self.last)

    def _seal(self) -> None:
        if self._is_written or not self.is_main:
            return
        row, self._is_written = self.last or {}, True
        if not self._size and not self._lines:
            self._lines.append("\t".join(row) + "\n")
        self._lines.append("\t".join(map(_cell, row.values())) + "\n")
        if len(self._lines) >= BUFFERED:
            self._write()

    def _write(self) -> None:
        content, self._lines = "".join(self._lines).encode(), []
        if not content:
            return
        _append(self.path, content)
        self._digest.update(content)
        self._size += len(content)

    def publish(self, path: Path, size: int) -> None:
        """Copy the first `size` bytes to another file; later calls append only the new bytes."""
        if self._published is None or not path.is_file() or path.stat().st_size != self._published:
            with atomic_write(path) as part:
                shutil.copyfile(self.path, part)
                os.truncate(part, size)
        else:
            with open(self.path, "rb") as source:
                source.seek(self._published)
                _append(path, source.read(size - self._published))
        self._published = size


def _append(path: Path, content: bytes) -> None:
    try:
        with open(path, "ab") as file:
            file.write(content)
    except OSError as error:
        error.filename = error.filename or str(path)  # errors of write() lack the file name
        raise


def _cell(value: float | int | None) -> str:
    return "" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
