"""The training log: an append-only file, so that memory and save time do not grow with the number of steps."""

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from raretokens.files import DIGITS, atomic_write
from raretokens.training.checked_files import digest, short

LOG = "log.tsv"  # name of the file
BUFFERED = 1000  # rows per write


@dataclass(frozen=True)
class Position:
    """Position in a log from which a saved state continues."""

    size: int = 0  # bytes
    checksum: str = field(default_factory=lambda: short(hashlib.sha256()))  # checksum of the first `size` bytes
    last: dict | None = None  # last row

    @property
    def sum(self) -> str:
        """Checksum in the form that CheckedFiles uses for growing files."""
        return f"{self.size}:{self.checksum}"

    @classmethod
    def of(cls, checksum: str, last: dict) -> "Position":
        """Return the position with this `sum` and last row."""
        size, _, digits = checksum.partition(":")
        return cls(int(size), digits, last)


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
        return Position(self._size, short(self._digest), self.last)

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
