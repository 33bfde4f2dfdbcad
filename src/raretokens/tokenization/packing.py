"""Prepared text, block by block.

Lines of a text cut into numbers, as bytes of a token file: by several processes, each word once.
"""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from raretokens.parallel import parallel_map

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


KNOWN = 500_000  # different words that are kept: those that come first, which are nearly all of a text
SMALL = 20_000_000  # bytes of text below which further processes are not worth their start
COUNTED = 4 * LINES  # lines at once


class Cuts(Protocol):
    """by_words: a line gives what its words give, one after the other, where single blanks part them."""

    size: int
    by_words: bool

    def encode(self, lines: list[str]) -> list[list[int]]: ...


Block = tuple[
    np.ndarray, np.ndarray
]  # numbers of some lines, each closed by model.size; numbers of each line, with that


def packed(model: Cuts, files: Sequence[Path], dtype: np.dtype) -> Iterator[Block]:
    """Block by block, the lines of several files taken in turn; the same whatever the number of processes."""
    parts = ([*chain.from_iterable(zip(*part, strict=True))] for part in zip(*map(blocks, files), strict=True))
    code = {2: "H", 4: "I"}[dtype.itemsize]
    for cut, lengths in parallel_map(_cut, parts, processes(files), _begin, model, code):
        yield np.frombuffer(cut, dtype), np.frombuffer(lengths, np.int32)


def counted(files: Sequence[Path], split: Callable[[str], Iterable[str]]) -> Counter[str]:
    """How often each word is in the files, in the order in which they first come up."""
    counts = Counter[str]()
    parts = chain.from_iterable(blocks(file, COUNTED) for file in files)
    for part in parallel_map(partial(_counted, split), parts, processes(files)):
        counts.update(part)
    return counts


def processes(files: Sequence[Path]) -> int:
    """One for each processor that this process may use, two at most: one more reads and writes."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(free, 2) if sum(file.stat().st_size for file in files) > SMALL else 1


def _counted(split: Callable[[str], Iterable[str]], lines: list[str]) -> Counter[str]:
    return Counter(chain.from_iterable(map(split, lines)))


class Packer:
    """A text repeats its words, so a dictionary answers for most of them."""

    def __init__(self, model: Cuts, code: str) -> None:
        self.model, self.code, self.end = model, code, array(code, [model.size]).tobytes()
        self.known: dict[str, bytes] = {}

    def __call__(self, lines: list[str]) -> tuple[bytes, bytes]:
        found = self._by_words(lines) if self.model.by_words else self._cut(lines)
        lengths = np.fromiter(map(len, found), np.int32) // len(self.end) + 1
        return self.end.join([*found, b""]), lengths.tobytes()

    def _by_words(self, lines: list[str]) -> list[bytes]:
        parted = [line.split() for line in lines]
        look = self._learnt({*chain.from_iterable(parted)}).__getitem__
        found = [b"".join(map(look, words)) for words in parted]
        odd = [number for number, line in enumerate(lines) if " ".join(parted[number]) != line]  # other white space
        for number, line in zip(odd, self._cut([lines[number] for number in odd]), strict=True):
            found[number] = line
        return found

    def _learnt(self, words: set[str]) -> dict[str, bytes]:
        """All that is known, these words included; what no longer fits is known this once."""
        new = [*(words - self.known.keys())]
        cut = dict(zip(new, self._cut(new), strict=True))
        if len(self.known) + len(cut) <= KNOWN:
            self.known |= cut
            return self.known
        return {word: self.known[word] for word in words - cut.keys()} | cut

    def _cut(self, lines: list[str]) -> list[bytes]:
        return [array(self.code, numbers).tobytes() for numbers in self.model.encode(lines)] if lines else []


_here: list[Packer] = []  # of this process


def _begin(model: Cuts, code: str) -> None:
    _here[:] = [Packer(model, code)]


def _cut(lines: list[str]) -> tuple[bytes, bytes]:
    return _here[0](lines)
