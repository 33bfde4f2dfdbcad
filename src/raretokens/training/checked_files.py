"""Files with checksums; damaged files are renamed or copied to damaged-<name> and never used."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from raretokens.files import atomic_write

DIGITS = 32  # hexadecimal digits of a checksum


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


BLOCK = 1 << 20  # bytes per read


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
    return sha256.hexdigest()[:DIGITS]


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
