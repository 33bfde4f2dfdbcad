"""Prepared text, block by block."""

from collections.abc import Iterator
from pathlib import Path

LINES = 5_000  # of a block: enough for all threads, and some ten megabytes of memory at most


def blocks(path: Path, lines: int = LINES) -> Iterator[list[str]]:
    """The lines of a file in blocks, split at \\n alone and without it; memory does not grow with the file."""
    block: list[str] = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            block.append(line.rstrip("\n"))
            if len(block) == lines:
                yield block
                block = []
    if block:
        yield block
