"""Encode texts block by block, with the same ids as the whole text would have, line feeds included."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.tokenization.token_files import read_blocks
from raretokens.tools.measure.tokenizers import Tokenizer

READ = 1 << 20  # bytes per read
BLOCK = 1 << 16  # characters that are encoded as one text
AT_ONCE = 16  # blocks that are encoded together, for tokenizers with threads
CONTEXT = 400  # characters on each side that are encoded to test a cut
TRIES = 64  # places where a cut is tested


class Texts(NamedTuple):
    """The text whose tokens are counted, and the text that a causal model reads."""

    counted: Path
    read: Path


def find_texts(text: Path, test: Path | None) -> Texts:
    """Return the texts of a file, or of a prepared corpus of the pipeline.

    Without `test`, a file serves both purposes. Of a corpus, the training text is counted and the test text is read.
    """
    if text.is_dir():
        text, test = text / "train.txt", test or text / "test.txt"
    for path in (text, test or text):
        if not path.is_file():
            raise UserError(f"{path}: no such text")
    return Texts(text, test or text)


def count_tokens(tokenizer: Tokenizer, path: Path, line_end: int | None) -> np.ndarray:
    """Count each id of the tokenizer in a text."""
    counts = np.zeros(tokenizer.size, np.int64)
    for ids in encode_text(tokenizer, path, line_end):
        counts += np.bincount(ids, minlength=tokenizer.size)
    if not counts.any():
        raise UserError(f"{path}: is empty")
    return counts


def read_ids(tokenizer: Tokenizer, path: Path, line_end: int | None, limit: int | None) -> np.ndarray:
    """Return the first ids of a text, at most `limit`."""
    parts, length = [], 0
    for part in encode_text(tokenizer, path, line_end):
        parts.append(part)
        length += len(part)
        if limit is not None and length >= limit:
            break
    if not length:
        raise UserError(f"{path}: is empty")
    return np.concatenate(parts)[:limit]


def encode_text(tokenizer: Tokenizer, path: Path, line_end: int | None) -> Iterator[np.ndarray]:
    """Yield the ids of a text, block by block.

    Args:
        tokenizer: the tokenizer.
        path: a UTF-8 text.
        line_end: id that replaces each line feed. None: encode the text as it is.
    """
    try:
        if line_end is None:
            yield from _encode_whole(tokenizer, path)
        else:
            for lines in read_blocks(path):
                yield _concatenate([[*row, line_end] for row in tokenizer.encode(lines)])
    except UnicodeDecodeError:
        raise UserError(_describe_encoding(path)) from None


def _encode_whole(tokenizer: Tokenizer, path: Path) -> Iterator[np.ndarray]:
    waiting: list[str] = []
    for block in _split(tokenizer, _characters(path)):
        waiting.append(block)
        if len(waiting) == AT_ONCE:
            yield _concatenate(tokenizer.encode(waiting))
            waiting = []
    if waiting:
        yield _concatenate(tokenizer.encode(waiting))


def _concatenate(rows: list[list[int]]) -> np.ndarray:
    return np.concatenate([np.array(row, np.int64) for row in rows])


def _characters(path: Path) -> Iterator[str]:
    """Yield the text of a file unchanged, without a byte order mark."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    with open(path, "rb") as file:
        while part := file.read(READ):
            yield decoder.decode(part)
        yield decoder.decode(b"", final=True)


def _split(tokenizer: Tokenizer, parts: Iterator[str]) -> Iterator[str]:
    """Cut a text into blocks whose concatenated ids equal those of the whole text."""
    text, wanted = "", BLOCK
    for part in parts:
        text += part
        while len(text) >= wanted + CONTEXT:
            cut = _find_cut(tokenizer, text, wanted)
            if cut is None:  # no cut is possible here, so a longer block is encoded
                wanted *= 2
                continue
            yield text[: cut[0]]
            text, wanted = text[cut[1] :], BLOCK
    if text:
        yield text


def _find_cut(tokenizer: Tokenizer, text: str, near: int) -> tuple[int, int] | None:
    """Find a cut that does not change the ids. Return the end of a block and the start of the next, or None.

    If a tokenizer puts a blank before every text, the cut is at a blank, which is left out.
    """
    blanks = [position for position in range(near, near - 20 * TRIES, -1) if text[position].isspace()]
    for position in (*blanks[:TRIES], *range(near, near - TRIES, -1)):
        for end, start in ((position, position), (position, position + 1)) if text[position] == " " else ((position, position),):
            before, after = text[end - CONTEXT : end], text[start : start + CONTEXT]
            left, right, both = tokenizer.encode([before, after, text[end - CONTEXT : start + CONTEXT]])
            if [*left, *right] == [*both]:
                return end, start
    return None


def _describe_encoding(path: Path) -> str:
    """Return an error message that says where a text is not UTF-8, and how to convert it."""
    with open(path, "rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return f"{path}: is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
        file.seek(0)
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"{path}: line {number} is not UTF-8; convert the text first, such as by iconv -f LATIN1 -t UTF-8"
    return f"{path}: is not UTF-8"
