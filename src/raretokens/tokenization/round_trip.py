"""Text through a subword model and back: stand-ins for what a model reserves, and a report of lines that do not come back."""

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Protocol

from raretokens.tokenization.vocabulary import SPECIALS, UNK

# The first of 32 code points that Unicode keeps for use inside a program, so that no text should contain them.
STAND_INS = 0xFDD0
PART = 65_000  # characters of a line that a model learns from at a time


class Decoder(Protocol):
    unknown: int | None

    def decode_lines(self, lines: list[list[int]]) -> list[str]: ...


class Escapes:
    """One-character stand-ins for strings that a subword model reserves for itself, such as SentencePiece's mark of a blank.

    A stand-in that is in the text itself gets a prefix, so that every text comes back.
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
    """Yield a line in parts of at most PART characters, without the blanks between them; a longer word is cut."""
    start = 0
    while len(line) - start > PART:
        blank = line.rfind(" ", start + 1, start + PART)
        end = blank if blank > 0 else start + PART
        yield line[start:end]
        start = end + (blank > 0)
    yield line[start:]


class RoundTrip:
    """The lines of a training text that decoding does not give back, and how many <unk> tokens they have.

    Lines with a literal <unk> do not count: it stands for an unknown word.
    """

    def __init__(self, model: Decoder, files: Sequence[Path]) -> None:
        self.model, self.files = model, [str(file) for file in files]
        self.lines = self.lost = self.unknown = 0
        self.first: tuple[str, int] | None = None  # file and number of the first line

    def add(self, lines: list[str], encoded: list[list[int]]) -> None:
        """Compare lines, of the files in turn, with their ids decoded."""
        sides = len(self.files)
        rows = zip(lines, encoded, self.model.decode_lines(encoded), cycle(self.files), strict=False)
        for number, (line, ids, decoded, file) in enumerate(rows, self.lines):
            if line != decoded and SPECIALS[UNK] not in line:
                self.first = self.first or (file, number // sides + 1)
                self.lost += 1
                self.unknown += ids.count(self.model.unknown)
        self.lines += len(lines)

    def report(self) -> str | None:
        """Return one line on what does not come back; None where everything does."""
        if not self.first:
            return None
        file, number = self.first
        lost = f"{self.lost:,} of {self.lines:,} lines are not given back by decoding"
        return f"{file}: line {number}: {lost}; they have {self.unknown:,} {SPECIALS[UNK]} tokens"
