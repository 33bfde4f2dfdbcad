"""Files with their checksums: what is read is what was written, and what is not is set aside, never used."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from raretokens.files import whole

DIGITS = 32  # of a checksum


class CheckedFiles:
    """Files of a folder; is_main: of several processes that read them this one writes."""

    def __init__(self, folder: Path, is_main: bool) -> None:
        self.folder, self.is_main = folder, is_main
        self.sums: dict[str, str] = {}  # name -> checksum

    def keep(self, name: str, write: Callable[[Path], None]) -> None:
        """Write a file by a function that is given a path."""
        if self.is_main:
            with whole(self.folder / name) as part:
                write(part)
            self.sums[name] = checksum(self.folder / name)

    def forget(self, names: Iterable[str]) -> None:
        if self.is_main:
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
                self.sums.pop(name, None)

    def damaged(self, sums: dict[str, str]) -> list[str]:
        """Names of those that are missing or are not as they were written, set aside."""
        bad = [name for name, known in sums.items() if not _is(self.folder / name, known)]
        for path in (self.folder / name for name in bad):
            if self.is_main and path.exists():
                path.rename(path.with_name(f"damaged-{path.name}"))
        return bad


def _is(path: Path, known: str) -> bool:
    try:
        return checksum(path) == known
    except OSError:
        return False


def checksum(path: Path) -> str:
    """sha256, in part."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
