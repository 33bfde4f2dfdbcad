"""New rows: draws from a normal distribution like that of the trained rows, or means of the rows of subword tokens."""

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.repair.selection import Selection
from raretokens.measure.repair.token_pieces import split_tokens
from raretokens.measure.stored_matrix import DTYPES, StoredMatrix
from raretokens.measure.tokenizers import ModelTokenizer

BLOCK = 1024  # rows that are read at once


def draw_rows(selection: Selection, seed: int, scale: float) -> np.ndarray:
    """Draw new rows (taken rows x width, float64) from a normal distribution with mean and covariance of the trained rows.

    A draw is the mean plus a weighted sum of the centred trained rows, whose weights are standard normal, divided by the square
    root of their number minus one. So no covariance matrix is stored. The weights depend on the seed, the id of the new row and
    the ids of the trained rows alone. An input and an output embedding thus get draws from their joint distribution.

    Args:
        scale: factor of the standard deviations. 0: exactly the mean.
    """
    stored, trained = selection.stored, np.flatnonzero(selection.trained)
    places = [trained[start : start + BLOCK] for start in range(0, len(trained), BLOCK)]
    total = sum((stored.read(ids).sum(axis=0, dtype=np.float64) for ids in places), np.zeros(stored.shape[1]))
    mean = total / len(trained)
    new = np.tile(mean, (len(selection.rows), 1))
    if scale:
        generators = [np.random.default_rng([seed, int(row)]) for row in selection.rows]
        factor = scale / np.sqrt(len(trained) - 1)
        for start in range(0, stored.shape[0], BLOCK):
            ids = np.arange(start, min(start + BLOCK, stored.shape[0]))
            weights = np.stack([generator.standard_normal(len(ids)) for generator in generators])
            kept = selection.trained[ids]
            new += factor * (weights[:, kept] @ (stored.read(ids[kept]).astype(np.float64) - mean))
    return new


def average_pieces(selection: Selection, tokenizer: ModelTokenizer | None, new: np.ndarray) -> np.ndarray:
    """Replace new rows by the mean row of their token's subword tokens. Return the ids of the rows that have such a mean.

    Args:
        new: taken rows x width, changed in place. A row stays if its token cannot be split.
    """
    allowed = np.ones(selection.stored.shape[0], bool)
    allowed[selection.untrained] = allowed[selection.broken] = False
    splits = split_tokens(tokenizer, selection.rows.tolist(), selection.untrained.tolist(), allowed)
    for place, row in enumerate(selection.rows.tolist()):
        if row in splits:
            new[place] = selection.stored.read(np.array(splits[row])).mean(axis=0, dtype=np.float64)
    return np.array(sorted(splits), np.int64)


def encode_rows(rows: np.ndarray, stored: StoredMatrix) -> np.ndarray:
    """Return rows as the numbers that the file stores, rounded to nearest. bfloat16 is returned as uint16.

    Raises:
        UserError: if a number is NaN or too large for the type.
    """
    with np.errstate(over="ignore"):
        if stored.dtype == "BF16":
            bits = rows.astype("<f4").view("<u4")
            encoded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(DTYPES["BF16"])
            is_finite = (encoded & 0x7F80) != 0x7F80
        else:
            encoded = rows.astype(DTYPES[stored.dtype])
            is_finite = np.isfinite(encoded)
    if not is_finite.all():
        raise UserError(f"{stored.path}: {stored.name}: a new row contains NaN or a number too large for {stored.form}")
    return encoded
