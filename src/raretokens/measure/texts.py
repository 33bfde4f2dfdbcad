"""Token ids and counts of a text, and estimated counts where there is no text.

Texts are encoded block by block, with the same ids as the whole text would have, line feeds included.
"""

import codecs
from collections.abc import Iterator
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.files import read_blocks
from raretokens.measure.model import Model
from raretokens.measure.tokenizers import ModelTokenizer

READ = 1 << 20  # characters per read
BLOCK = 1 << 16  # characters that are encoded as one text
AT_ONCE = 16  # blocks that are encoded together, for tokenizers with threads
CONTEXT = 400  # characters on each side that are encoded to test a cut
TRIES = 64  # places where a cut is tested
SCALE = 1e10  # counts per unit of frequency, so that the rarest word of wordfreq (1e-8) has 100
WORDS = 10_000  # words that are encoded together
SUBWORD, MAX_SUBWORDS = ("Ġ", "▁"), 0.1  # marks of a blank before a subword token; the largest share of words that begin so


class TextPaths(NamedTuple):
    """The text whose tokens are counted, and the text that a causal model reads."""

    counted: Path
    read: Path


def find_texts(text: Path, test: Path | None) -> TextPaths:
    """Return the texts of a file, or of a prepared corpus of the pipeline.

    Without `test`, a file serves both purposes. Of a corpus, the training text is counted and the test text is read.
    """
    if text.is_dir():
        text, test = text / "train.txt", test or text / "test.txt"
    for path in (text, test or text):
        if not path.is_file():
            raise UserError(f"{path}: no such text")
    return TextPaths(text, test or text)


def count_tokens(tokenizer: ModelTokenizer, path: Path, line_end: int | None) -> np.ndarray:
    """Count each id of the tokenizer in a text."""
    counts = np.zeros(tokenizer.size, np.int64)
    for ids in encode_text(tokenizer, path, line_end):
        counts += np.bincount(ids, minlength=tokenizer.size)
    if not counts.any():
        raise UserError(f"{path}: is empty")
    return counts


def has_windows_line_ends(path: Path) -> bool:
    """Whether the first characters of a text contain a line end of Windows."""
    with open(path, "rb") as file:
        return b"\r\n" in file.read(READ)


def read_ids(tokenizer: ModelTokenizer, path: Path, line_end: int | None, limit: int | None) -> np.ndarray:
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


def encode_text(tokenizer: ModelTokenizer, path: Path, line_end: int | None) -> Iterator[np.ndarray]:
    """Yield the ids of a UTF-8 text, block by block. `line_end` replaces each line feed; None: encode the text as it is."""
    try:
        if line_end is None:
            blocks = _split(tokenizer, path)
            while texts := list(islice(blocks, AT_ONCE)):
                yield _concatenate(tokenizer.encode(texts))
        else:
            for lines in read_blocks(path):
                yield _concatenate([[*row, line_end] for row in tokenizer.encode(lines)])
    except UnicodeDecodeError:
        raise UserError(_describe_encoding(path)) from None


def _concatenate(rows: list[list[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(rows), np.int64)


def _split(tokenizer: ModelTokenizer, path: Path) -> Iterator[str]:
    """Cut a text into blocks whose concatenated ids equal those of the whole text, without a byte order mark."""
    text, wanted = "", BLOCK
    with open(path, encoding="utf-8-sig", newline="") as file:
        while part := file.read(READ):
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


def _find_cut(tokenizer: ModelTokenizer, text: str, near: int) -> tuple[int, int] | None:
    """Find a cut that does not change the ids. Return the end of a block and the start of the next, or None.

    If a tokenizer puts a blank before every text, the cut is at a blank, which is left out.
    """
    blanks = [position for position in range(near, near - 20 * TRIES, -1) if text[position].isspace()]
    for position in (*blanks[:TRIES], *range(near, near - TRIES, -1)):
        for start in (position, position + 1) if text[position] == " " else (position,):
            before, after = text[position - CONTEXT : position], text[start : start + CONTEXT]
            left, right, both = tokenizer.encode([before, after, text[position - CONTEXT : start + CONTEXT]])
            if left + right == both:
                return position, start
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


def estimate_counts(model: Model, languages: str) -> tuple[np.ndarray, str]:
    """Estimate the count of each row's token in a text of 10^10 words, from the word frequencies of the library wordfreq.

    Each word of the library is encoded after a blank, as within a text, and adds its frequency to each of its tokens. Rows
    without a tokenizer are words, and have the frequency of the word in lower case. The library has no capitals and no
    punctuation, so tokens with either have a count of 0. Return also how the counts were found, for signatures.

    Args:
        languages: language codes of wordfreq, joined by `+`, such as `en+pt`. Each language counts as much as the others.

    Raises:
        UserError: if the library is not installed or does not know the language, or the rows have no tokens.
    """
    frequencies, version = _read_frequencies(languages)
    words, values = list(frequencies), np.rint(np.array([*frequencies.values()]) * SCALE).astype(np.int64)
    if model.tokenizer is not None:
        size = max(model.tokenizer.size, len(model.row_names or []))
        counts = np.zeros(size, np.int64)
        for start in range(0, len(words), WORDS):
            encoded = model.tokenizer.encode([f" {word}" for word in words[start : start + WORDS]])
            for ids, value in zip(encoded, values[start : start + WORDS], strict=True):
                np.add.at(counts, ids, value)
    elif model.row_names is not None:
        if np.mean([(name or "").startswith(SUBWORD) for name in model.row_names]) > MAX_SUBWORDS:
            raise UserError("rows are subword tokens and no tokenizer is known, so words do not give their frequencies")
        known = dict(zip(words, values, strict=True))
        counts = np.array([known.get((name or "").lower(), 0) for name in model.row_names], np.int64)
    else:
        raise UserError("rows have no tokens, so they have no frequencies (--vocabulary names them)")
    return counts, f"frequencies:estimate-wordfreq-{version}-{languages}"


def _read_frequencies(languages: str) -> tuple[dict[str, float], str]:
    """Return the mean frequency of each word over languages, and the version of the library."""
    try:
        import wordfreq
    except ModuleNotFoundError:
        raise UserError("--frequencies needs wordfreq: pip install wordfreq") from None
    mean: dict[str, float] = {}
    codes = languages.split("+")
    for code in codes:
        try:
            found = wordfreq.get_frequency_dict(code)
        except LookupError:
            known = ", ".join(sorted(wordfreq.available_languages()))
            raise UserError(f"--frequencies: {code} is not allowed: should be of {known}, or several joined by +") from None
        for word, frequency in found.items():
            mean[word] = mean.get(word, 0.0) + frequency / len(codes)
    return mean, metadata.version("wordfreq")
