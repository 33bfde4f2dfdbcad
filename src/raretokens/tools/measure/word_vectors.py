"""Word vectors of word2vec, GloVe, fastText and gensim, as text or in word2vec's binary form.

The numbers are written to a temporary file, and the words stay in memory. If a word occurs twice, its first row counts, as in
gensim.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure.stored_matrix import FileContents, StoredMatrix

FIRST_LINES = 1000  # lines that determine the width
MAX_WORD = 10_000  # bytes


def read_words(path: Path) -> FileContents:
    """Read word vectors in text or binary form."""
    return _read_binary(path) if _is_binary(path) else _read_text(path)


def _is_binary(path: Path) -> bool:
    """Whether a file begins as word2vec's binary form: rows and width, then bytes that are not a line of text."""
    with open(path, "rb") as file:
        declared, line = declared_shape(file.readline(100)), file.readline(1 << 20)
    if declared is None or _parse_line(line, declared[1]) is not None:
        return False
    try:
        return any(ord(character) < 32 and not character.isspace() for character in line.decode())
    except UnicodeDecodeError:
        return True


def _read_text(path: Path) -> FileContents:
    """Read a word and its numbers from each line. A first line may contain rows and width.

    The last `width` fields are the row, so a word may contain blanks or be a blank. Blanks and tabs separate fields.
    """
    with open(path, "rb") as file:
        declared, width = _find_shape(path, file)

        def rows() -> Iterator[tuple[bytes, np.ndarray]]:
            for number, line in _lines(file):
                if number == 1 and declared is not None:
                    continue
                parsed = _parse_line(line, width)
                if parsed is None:
                    raise UserError(f"{path}: line {number}: should be a word and {width} numbers, separated by spaces or tabs")
                yield parsed

        return _store(path, rows(), width, declared)


def _store(path: Path, rows: Iterator[tuple[bytes, np.ndarray]], width: int, declared: int | None) -> FileContents:
    """Write the rows of new words to a temporary file. `declared`: the number of rows in the first line, if it has one."""
    folder = tempfile.TemporaryDirectory()
    stored, notes, found, damaged = Path(folder.name) / "rows", [], 0, 0
    words: dict[str, None] = {}
    with open(stored, "wb") as file:
        for word, row in rows:
            name = word.decode("utf-8", "replace")
            found, damaged = found + 1, damaged + ("\ufffd" in name)
            if name not in words:
                words[name] = None
                file.write(row.astype("<f4", copy=False).tobytes())
    if not found:
        raise UserError(f"{path}: contains no word vectors")
    if declared not in (None, found):
        notes.append(f"the first line of {path.name} declares {declared} rows, but {found} follow: these are measured")
    if found > len(words):
        notes.append(f"{found - len(words)} rows of words that stand twice are left out: the first row counts")
    if damaged:
        notes.append(f"{damaged} words are not UTF-8")
    return FileContents({"": StoredMatrix(stored, 0, (len(words), width), "F32")}, list(words), folder, notes)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line that is not empty."""
    for number, line in enumerate(file, start=1):
        line = line.rstrip(b"\r\n")
        if line.strip():
            yield number, line


def _find_shape(path: Path, file: BinaryIO) -> tuple[int | None, int]:
    """Return the number of rows that the first line declares, if it does, and the width."""
    lines = [line for _, line in islice(_lines(file), FIRST_LINES)]
    file.seek(0)
    if not lines:
        raise UserError(f"{path}: contains no word vectors")
    declared = declared_shape(lines[0])
    if declared and (declared[1] == 1 or not lines[1:] or len(lines[1].split()) > 2):
        if lines[1:] and len(lines[1].split()) < declared[1]:
            raise UserError(f"{path}: line 2: should be a word and {declared[1]} numbers, as line 1 declares")
        return declared
    width = Counter(_count_numbers(line) for line in lines).most_common(1)[0][0]
    if width < 1:
        raise UserError(f"{path}: line 1: should be a word and its numbers")
    return None, width


def declared_shape(line: bytes) -> tuple[int, int] | None:
    """Return rows and width if the line consists of these two numbers, else None."""
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(field.isdigit() for field in fields) else None


def _count_numbers(line: bytes) -> int:
    """Count the numbers at the end of a line, without the word, which may itself be a number or a blank."""
    fields = line.split()
    count = 0
    while count < len(fields) and _numbers(fields[-1 - count]) is not None:
        count += 1
    return count - (count == len(fields) and line[:1] not in (b" ", b"\t"))


def _parse_line(line: bytes, width: int) -> tuple[bytes, np.ndarray] | None:
    """Return the word and its row, or None if the last fields are not numbers."""
    line = line.rstrip(b" \t\r\n")
    for separator in (b"\t", b" ", None):  # None: several blanks between numbers, or blanks and tabs
        word, *fields = line.rsplit(separator, width) or [b""]
        row = _numbers(b" ".join(fields)) if len(fields) == width else None
        if row is not None and len(row) == width:
            return word.rstrip(b" ") or word, row
    return None


def _numbers(text: bytes) -> np.ndarray | None:
    try:
        return np.array(text.split(), np.float64).astype(np.float32)
    except ValueError:
        return None


def _read_binary(path: Path) -> FileContents:
    """Read word2vec's binary form: rows and width, then for each row the word, a blank and float32 numbers."""
    with open(path, "rb") as file:
        declared, width = map(int, file.readline().split())

        def rows() -> Iterator[tuple[bytes, np.ndarray]]:
            for _ in range(declared):
                word = _read_word(path, file)
                row = file.read(4 * width)
                if word is None or len(row) < 4 * width:
                    return  # the file is the beginning of a larger file
                yield word, np.frombuffer(row, "<f4")

        return _store(path, rows(), width, declared)


def _read_word(path: Path, file: BinaryIO) -> bytes | None:
    """Read a word up to its blank. Return None at the end of the file."""
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte:
            return bytes(word) or None
        if byte != b"\n" or word:  # a line feed may follow a row
            word += byte
        if len(word) > MAX_WORD:
            raise UserError(f"{path}: no word of word2vec's binary form after byte {file.tell() - MAX_WORD}")
    return bytes(word)
