"""Word vectors as text: a word and its numbers a line, as word2vec, GloVe and gensim write them."""

import tempfile
from pathlib import Path

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure.formats import Stored


def read(path: Path) -> tuple[Stored, list[str], tempfile.TemporaryDirectory]:
    """The table, its words, and the folder that holds the numbers as bytes as long as it is kept.

    A first line of two whole numbers (rows and width) is allowed. Raises UserError with the line that does not fit.
    """
    folder = tempfile.TemporaryDirectory()
    words, width, told = [], 0, None
    with (
        open(path, encoding="utf-8", newline="\n", errors="replace") as text,
        open(f"{folder.name}/rows", "wb") as rows,
    ):
        for number, line in enumerate(text, start=1):
            word, *values = line.rstrip(" \r\n").split(" ")
            if number == 1 and len(values) == 1 and word.isdigit() and values[0].isdigit():
                told = int(word)
                continue
            width = width or len(values)
            try:
                row = np.array(values, np.float32)
            except ValueError:
                row = np.empty(0)
            if len(row) != width or not width:
                raise UserError(f"{path}: line {number}: should be a word and {width or 'its'} numbers")
            words.append(word)
            rows.write(row.tobytes())
    if told not in (None, len(words)) or not words:
        raise UserError(f"{path}: {len(words)} rows of {told or 'at least 1'}")
    return Stored(Path(folder.name) / "rows", 0, (len(words), width), "F32"), words, folder
