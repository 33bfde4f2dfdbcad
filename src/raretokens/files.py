"""Atomic writes, also when the disk fills or the power fails, and rounding of the numbers in reports."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
NOTHING = 1 << 20  # bytes; a disk with less free space counts as full
DIGITS = 6  # significant digits; further digits depend on the machine


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder. Rename it to `path` at the end of the block; remove it if the block fails.

    Raises:
        OSError: with ENOSPC when the disk is full, also where a library raised its own exception for that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        yield part
        sync(part)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        error.filename = error.filename or str(path)  # OSErrors of write() have no filename
        raise
    except BaseException as error:
        is_full = isinstance(error, Exception) and _is_full(error, part.parent)
        part.unlink(missing_ok=True)
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, without translating line ends."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def failure(error: OSError) -> str:
    """Return one line with the file and the system's message. For a full disk, add the free space in GB."""
    place = error.filename or "standard output"
    if error.errno not in FULL:
        return f"{place}: {(error.strerror or str(error)).lower()}"
    there = next((folder for folder in Path(place).absolute().parents if folder.exists()), Path())
    return f"{place}: no space left on the disk, {shutil.disk_usage(there).free / 1e9:.3f} GB are free on it"


def _is_full(error: Exception, folder: Path) -> bool:
    return shutil.disk_usage(folder).free < NOTHING or os.strerror(errno.ENOSPC) in str(error)


def round_digits(value: float, digits: int = DIGITS) -> float:
    """Round to `digits` significant digits; -0.0 becomes 0.0."""
    return float(f"{value:.{digits}g}") + 0.0


LINES = 5_000  # lines per block of text: enough for all threads, and at most some ten megabytes of memory


def read_blocks(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a file in blocks, split only at \\n and without it. Memory does not grow with the file."""
    block: list[str] = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            block.append(line.rstrip("\n"))
            if len(block) == LINES:
                yield block
                block = []
    if block:
        yield block
