"""The text that a model is asked about: counts of its pieces, and the ids that it reads."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.tools.measure import tokenizers as pieces
from raretokens.tools.measure.model import Model


class Texts(NamedTuple):
    """Which text is counted and which is read."""

    counted: Path
    read: Path


def find(text: Path, read: Path | None) -> Texts:
    """A file for both, or a prepared corpus of the pipeline: its training text is counted, its test text read."""
    if text.is_dir():
        text, own = text / "train.txt", text / "test.txt"
        read = read or own
    for path in (text, read or text):
        if not path.is_file():
            raise UserError(f"{path}: no such text")
    return Texts(text, read or text)


def counts(model: Model, path: Path) -> np.ndarray:
    """How often a text has each piece: as many numbers as the tokenizer has ids."""
    cutter = _cutter(model)
    found = np.zeros(cutter.size, np.int64)
    for ids in pieces.ids(cutter, path, model.line_end):
        found += np.bincount(ids, minlength=cutter.size)
    return found


def ids(model: Model, path: Path, limit: int | None) -> np.ndarray:
    """Its first pieces, as the model reads them."""
    parts, length = [], 0
    for part in pieces.ids(_cutter(model), path, model.line_end):
        parts.append(part)
        length += len(part)
        if limit is not None and length >= limit:
            break
    if not length:
        raise UserError(f"{path}: is empty")
    return np.concatenate(parts)[:limit]


def _cutter(model: Model) -> pieces.Pieces:
    if model.pieces is None:
        raise UserError(
            f"{model.path}: no tokenizer in it that can be read, so a text says nothing of it; leave --text out"
        )
    return model.pieces
