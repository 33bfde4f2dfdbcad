"""Row order that all metrics expect: special tokens, then tokens by falling count, then unused rows.

The pipeline's own vocabularies have this order. The position of a missing special token has row -1.
"""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from raretokens.measure.model import Model
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.vocabulary import FILLER, FREQ, PAD, SPECIALS, Vocabulary

FRACTIONS = {"fractions": [0.3, 0.5, 0.2], "boundaries": None}  # shares of the token types: AGG's groups
UNGROUPED = 3  # code of used rows without frequency groups


@dataclass(eq=False)
class OrderedRows:
    """Rows of a file in another order. They are read when indexed."""

    stored: StoredMatrix
    rows: np.ndarray  # position -> row in the file, or -1
    cache: dict = field(default_factory=dict)  # sums over rows, computed once

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.stored.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, positions: np.ndarray | slice) -> np.ndarray:
        rows = np.atleast_1d(self.rows[positions])
        result = self.stored.read(np.maximum(rows, 0))
        result[rows < 0] = 0
        return result


@dataclass(frozen=True)
class Arrangement:
    """The rows of an embedding in metric order, with token, count and frequency group of each position."""

    rows: np.ndarray  # position -> row in the file, or -1
    vocabulary: Vocabulary
    groups: np.ndarray  # frequency group, UNGROUPED or FILLER
    counts: np.ndarray | None  # None if no text was counted
    excluded: np.ndarray  # rows in the file that contain NaN or Inf, and thus have no position
    is_foreign: bool  # whether the model's tokens are not those of this embedding

    def ranks(self, size: int) -> np.ndarray | None:
        """Return the rank by falling count of each of `size` rows in the file, from 1. It is 0 of special tokens."""
        if self.counts is None:
            return None
        found, ordered = np.zeros(size, np.int64), self.rows[len(SPECIALS) :]
        found[ordered] = np.arange(1, len(ordered) + 1)
        return found


def arrange_rows(
    model: Model,
    role: str,
    counts: np.ndarray | None = None,
    fractions: list[float] | None = None,
    is_sorted: bool = False,
) -> Arrangement:
    """Order the rows of the model's embedding with this role, without those that contain NaN or Inf.

    Args:
        counts: count of each id in a text, if one was counted.
        fractions: shares of the token types that are frequent, medium and rare. Default: the model's groups, else FRACTIONS.
        is_sorted: ids are sorted by falling frequency, so that groups are known without counts.
    """
    stored, is_foreign = model.embeddings[role], model.is_foreign(role)
    size = stored.shape[0]
    excluded = np.concatenate([ids[~np.isfinite(rows).all(axis=1)] for ids, rows in stored.blocks()])
    known = {} if is_foreign else model.tokens
    tokens = [known.get(row) for row in range(size)]
    is_used = np.array([token is not None for token in tokens]) if known else np.ones(size, bool)
    if counts is not None:
        counts = np.pad(counts[:size], (0, max(0, size - len(counts))))
    rows = _order_rows([None] * len(SPECIALS) if is_foreign else model.special_ids, is_used, counts, excluded)
    placed = np.zeros(len(rows), np.int64)
    if counts is not None:
        placed[rows >= 0] = counts[rows[rows >= 0]]
    names = (SPECIALS[position] if row < 0 else tokens[row] or "" for position, row in enumerate(rows))
    vocabulary = Vocabulary(tuple(names), placed, placed, int(np.sum(~is_used[rows[len(SPECIALS) :]])))
    declared = None
    if counts is not None or is_sorted:
        declared = {"fractions": fractions, "boundaries": None} if fractions else model.groups or FRACTIONS
    groups = _group_positions(vocabulary, rows, declared)
    return Arrangement(rows, vocabulary, groups, None if counts is None else placed, excluded, is_foreign)


def _order_rows(
    special_ids: list[int | None], is_used: np.ndarray, counts: np.ndarray | None, excluded: np.ndarray
) -> np.ndarray:
    """Return position -> row. `is_used` and `counts` have an entry for each row in the file."""
    specials = [-1 if row is None or row >= len(is_used) or row in excluded else row for row in special_ids]
    placed = [*specials, *excluded]
    used = np.setdiff1d(np.flatnonzero(is_used), placed)
    if counts is not None:
        used = used[np.lexsort((used, -counts[used]))]
    unused = np.setdiff1d(np.flatnonzero(~is_used), placed)
    return np.concatenate((np.array(specials, np.int64), used, unused))


def _group_positions(vocabulary: Vocabulary, rows: np.ndarray, declared: dict[str, Any] | None) -> np.ndarray:
    """Return the frequency group of each position, or UNGROUPED if no groups are declared.

    Special tokens that the vocabulary lacks do not count as types.
    """
    groups = np.full(len(rows), UNGROUPED, np.int8)
    if declared:
        missing = int(np.sum(rows[: len(SPECIALS)] < 0))
        parts = {name: getattr(vocabulary, name)[missing:] for name in ("tokens", "counts", "target_counts")}
        present = replace(vocabulary, **parts)
        groups[:missing], groups[missing:] = FREQ, present.frequency_groups(SimpleNamespace(**declared))
    groups[vocabulary.types :] = FILLER
    groups[: len(SPECIALS)][rows[: len(SPECIALS)] < 0] = FILLER
    if rows[PAD] >= 0:
        groups[PAD] = FREQ if declared else UNGROUPED
    return groups
