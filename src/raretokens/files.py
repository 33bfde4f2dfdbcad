"""Files that appear complete or not at all, also where the disk fills or the power fails; rounding of the numbers in them."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
NOTHING = 1 << 20  # bytes: a disk with less is full
DIGITS = 6  # significant: the digits below depend on the machine


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary name in the same folder, which is renamed to the path when the block ends, and removed if the block fails.

    A library's own error on a full disk becomes the OSError that it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        yield part
        sync(part)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        error.filename = error.filename or str(path)  # a write does not know its file
        raise
    except BaseException as error:
        is_full = isinstance(error, Exception) and _is_full(error, part.parent)
        part.unlink(missing_ok=True)
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_text(path: Path, text: str) -> None:
    """UTF-8, lines as they are."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def failure(error: OSError) -> str:
    """What the system says, in a line that names the file; of a full disk also how much is free."""
    place = error.filename or "standard output"
    if error.errno not in FULL:
        return f"{place}: {(error.strerror or str(error)).lower()}"
    there = next((folder for folder in Path(place).absolute().parents if folder.exists()), Path())
    return f"{place}: no space left on the disk, {shutil.disk_usage(there).free / 1e9:.3f} GB are free on it"


def _is_full(error: Exception, folder: Path) -> bool:
    return shutil.disk_usage(folder).free < NOTHING or os.strerror(errno.ENOSPC) in str(error)


def round_digits(value: float, digits: int = DIGITS) -> float:
    """Round to so many significant digits; minus zero becomes zero."""
    return float(f"{value:.{digits}g}") + 0.0
