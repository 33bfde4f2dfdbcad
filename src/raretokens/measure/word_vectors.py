"""Word vectors as text (GloVe, fastText, gensim), and in word2vec's binary form, which gensim reads.

The numbers are written to a temporary file, and the words stay in memory. If a word occurs twice, its first row counts, as in
gensim.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import mode

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.stored_matrix import BLOCK, FileContents, store

FIRST_LINES = 1000  # lines that determine the width
LOWEST = 9  # lowest byte that a text contains


def declared_shape(line: bytes) -> tuple[int, int] | None:
    """Return rows and width if the line consists of these two numbers, else None."""
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(field.isdigit() for field in fields) else None


def read_words(path: Path) -> FileContents:
    """Read word vectors in text or binary form."""
    with open(path, "rb") as file:
        is_binary = declared_shape(file.readline(100)) is not None and min(file.read(1000), default=LOWEST) < LOWEST
    return _read_binary(path) if is_binary else _read_text(path)


def _read_binary(path: Path) -> FileContents:
    try:
        from gensim.models import KeyedVectors
    except ModuleNotFoundError:
        raise UserError(f"{path}: the binary form of word2vec needs gensim: pip install gensim") from None
    try:
        found = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    except (ValueError, EOFError, MemoryError) as error:
        raise UserError(f"{path}: gensim cannot read it: {error}") from None
    matrix, folder = store(found.vectors[start : start + BLOCK] for start in range(0, len(found), BLOCK))
    return FileContents({"": matrix}, found.index_to_key, folder)


def _read_text(path: Path) -> FileContents:
    """Read a word and its numbers from each line that is not empty. The first line may contain rows and width."""
    with open(path, "rb") as file:
        lines = [line for line in islice(file, FIRST_LINES) if line.strip()]
        file.seek(0)
        declared, width = declared_shape(lines[0]) if lines else None, mode(len(line.split()) - 1 for line in lines or [b"word"])
        if declared is not None:
            file.readline()
            width = declared[1]
        if width < 1:
            raise UserError(f"{path}: contains no word vectors: line 1 should be a word and its numbers")
        words: dict[str, None] = {}
        twice: list[str] = []
        matrix, folder = store(_rows(path, file, 1 + (declared is not None), width, words, twice))
    found, notes = len(words) + len(twice), []
    if declared is not None and declared[0] != found:
        notes.append(f"the first line of {path.name} declares {declared[0]} rows, but {found} follow: these are measured")
    if twice:
        notes.append(f"{len(twice)} rows of words that stand twice are left out: the first row counts")
    return FileContents({"": matrix}, list(words), folder, notes)


def _rows(
    path: Path, file: Iterable[bytes], first: int, width: int, words: dict[str, None], twice: list[str]
) -> Iterator[np.ndarray]:
    """Yield blocks of rows. Add their words to `words`, or to `twice` if they are known already.

    The last `width` fields of a line are the row, so a word may contain blanks. Blanks and tabs separate fields.
    """
    lines = ((number, line) for number, line in enumerate(file, first) if line.strip())
    form = f"should be a word and {width} numbers, separated by spaces or tabs"
    while block := list(islice(lines, BLOCK)):
        texts = []
        for number, line in block:
            word, *fields = line.rsplit(None, width)
            if len(fields) < width:
                raise UserError(f"{path}: line {number}: {form}")
            name = word.decode("utf-8", "replace")
            if name in words:
                twice.append(name)
            else:
                words[name] = None
                texts.append(b" ".join(fields).decode("utf-8", "replace"))
        try:
            if texts:
                yield np.loadtxt(texts, np.float32, comments=None, ndmin=2)
        except ValueError as error:
            raise UserError(f"{path}: of the lines {block[0][0]} to {block[-1][0]}, each {form}: {error}") from None
