"""Files that appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to beside the path; it takes the path's name when the block ends, and goes if the block fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, path)


def write_text(path: Path, text: str) -> None:
    """UTF-8, lines as they are."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
