"""Make encoding reversible: escape strings that subword models reserve, and report lines that decoding does not restore."""

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Protocol

from raretokens.vocabulary import SPECIALS, UNK

# The first of 32 code points that Unicode reserves for internal use, so that no text should contain them.
STAND_INS = 0xFDD0
PART = 65_000  # maximum characters of a part of a line when a model is learnt


class Decoder(Protocol):
    unknown: int | None

    def decode(self, lines: list[list[int]]) -> list[str]: ...


class Escapes:
    """One-character replacements for strings that a subword model reserves, such as SentencePiece's space mark.

    A replacement character that occurs in the text itself gets a prefix, so that restore() inverts escape() for any text.
    """

    def __init__(self, *reserved: str) -> None:
        *stand_ins, prefix = (chr(STAND_INS + number) for number in range(len(reserved) + 1))
        self._escaped = dict(zip(reserved, stand_ins, strict=True))
        self._escaped |= {character: prefix + character for character in (*stand_ins, prefix)}
        self._restored = {escaped: string for string, escaped in self._escaped.items()}
        longest_first = sorted(self._restored, key=len, reverse=True)
        self._to, self._from = (
            re.compile("|".join(map(re.escape, strings))) for strings in (self._escaped, longest_first)
        )

    def escape(self, text: str) -> str:
        return self._to.sub(lambda match: self._escaped[match[0]], text)

    def restore(self, text: str) -> str:
        return self._from.sub(lambda match: self._restored[match[0]], text)


def parts(line: str) -> Iterator[str]:
    """Yield a line in parts of at most PART characters, split at blanks. Words longer than PART are cut."""
    start = 0
    while len(line) - start > PART:
        blank = line.rfind(" ", start + 1, start + PART)
        end = blank if blank > 0 else start + PART
        yield line[start:end]
        start = end + (blank > 0)
    yield line[start:]


class RoundTrip:
    """Count the lines of a training text that decoding does not restore, and their <unk> tokens.

    Lines with a literal <unk> are ignored, because there <unk> denotes an unknown word.
    """

    def __init__(self, model: Decoder, files: Sequence[Path]) -> None:
        self.model, self.files = model, [str(file) for file in files]
        self.lines = self.lost = self.unknown = 0
        self.first: tuple[str, int] | None = None  # file and number of the first such line

    def add(self, lines: list[str], encoded: list[list[int]]) -> None:
        """Compare lines, which alternate between the files, with their decoded ids."""
        sides = len(self.files)
        rows = zip(lines, encoded, self.model.decode(encoded), cycle(self.files), strict=False)
        for number, (line, ids, decoded, file) in enumerate(rows, self.lines):
            if line != decoded and SPECIALS[UNK] not in line:
                self.first = self.first or (file, number // sides + 1)
                self.lost += 1
                self.unknown += ids.count(self.model.unknown)
        self.lines += len(lines)

    def report(self) -> str | None:
        """Return a one-line report of the lines that decoding does not restore, or None where there are none."""
        if not self.first:
            return None
        file, number = self.first
        lost = f"{self.lost:,} of {self.lines:,} lines are not given back by decoding"
        return f"{file}: line {number}: {lost}; they have {self.unknown:,} {SPECIALS[UNK]} tokens"
