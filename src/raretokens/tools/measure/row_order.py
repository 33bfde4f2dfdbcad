"""A table as all metrics expect it: special tokens first, then pieces by falling count, then rows that no text uses.

The pipeline's own vocabularies are in this order. A place for a special token that a model does not have is no row (-1).
"""

from dataclasses import dataclass, field

import numpy as np

from raretokens.tokenization.vocabulary import FILLER, FREQ, PAD, SPECIALS, Vocabulary
from raretokens.tools.measure.formats import Stored

UNGROUPED = 3  # used, but of no frequency group


@dataclass(eq=False)
class Ordered:
    """Rows of a file in another order; `table[ids]` reads them."""

    stored: Stored
    rows: np.ndarray  # place -> row of the file, or -1
    sums: dict = field(default_factory=dict)  # what was summed up once

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.stored.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, ids: np.ndarray | slice) -> np.ndarray:
        rows = np.atleast_1d(self.rows[ids])
        wanted, place = np.unique(rows[rows >= 0], return_inverse=True)
        read = self.stored.read(wanted)
        if len(wanted) == len(rows) and (place[1:] > place[:-1]).all():
            return read
        found = np.zeros((len(rows), read.shape[1]), read.dtype)
        found[rows >= 0] = read[place]
        return found

    def whole(self) -> np.ndarray:
        """All of it in memory, read in the order of the file."""
        found = np.zeros(self.shape, np.float64 if self.stored.kind == "F64" else np.float32)
        places = np.argsort(self.rows, kind="stable")
        for start in range(0, len(places), 4096):
            part = places[start : start + 4096]
            found[part] = self[part]
        return found


def order(size: int, marks: list[int | None], used: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """Place -> row. marks: rows of <s>, <pad>, </s>, <unk>; used: size, whether a text can use the row."""
    special = [-1 if mark is None or mark >= size else mark for mark in marks]
    rest = np.setdiff1d(np.flatnonzero(used), special)
    if counts is not None:
        rest = rest[np.lexsort((rest, -counts[rest]))]
    unused = np.setdiff1d(np.flatnonzero(~used), special)
    return np.concatenate((np.array(special, np.int64), rest, unused))


def vocabulary(rows: np.ndarray, names: list[str], counts: np.ndarray | None, unused: int) -> Vocabulary:
    """In the order of the rows; counts are zeros where nothing was counted."""
    placed = np.zeros(len(rows), np.int64)
    if counts is not None:
        placed[rows >= 0] = counts[rows[rows >= 0]]
    pieces = [SPECIALS[place] if row < 0 else names[row] for place, row in enumerate(rows)]
    return Vocabulary(tuple(pieces), placed, placed, unused)


def groups(known: Vocabulary, rows: np.ndarray, declared: dict | None) -> np.ndarray:
    """Frequency group of each place; UNGROUPED without a declaration."""
    code = known.groups(declared) if declared else np.full(len(rows), UNGROUPED, np.int8)
    code[known.types :] = FILLER
    code[: len(SPECIALS)][rows[: len(SPECIALS)] < 0] = FILLER
    if rows[PAD] >= 0:
        code[PAD] = FREQ if declared else UNGROUPED
    return code
