"""Word similarity of any embedding: unchanged, without its top directions, and whitened by the text's frequencies."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.model import Model
from raretokens.measure.notes import Notes
from raretokens.measure.row_order import Arrangement
from raretokens.metrics import similarity
from raretokens.metrics.frequency import whitening
from raretokens.metrics.rows import members
from raretokens.metrics.score_files import Metrics
from raretokens.metrics.similarity import Pair
from raretokens.metrics.spectrum import all_but_top
from raretokens.vocabulary import UNK

SPACE = "Ġ"  # GPT-2's space; a token begins with it only if the text has a space there


class Whitened:
    """Rows of a matrix, whitened when indexed. Cosines do not depend on the scale of rows."""

    def __init__(self, matrix: Any, mean: np.ndarray, whitening: np.ndarray) -> None:
        self.matrix, self.mean, self.whitening = matrix, mean, whitening

    def __getitem__(self, ids: Any) -> np.ndarray:
        return (np.asarray(self.matrix[ids], np.float64) - self.mean) @ self.whitening


def read_similarity_sets(paths: Sequence[Path]) -> dict[str, list[Pair]]:
    """Read word pairs with human scores. Return them by file name."""
    sets: dict[str, list[Pair]] = {}
    for path in paths:
        if path.stem in sets:
            raise UserError(f"{path}: another file is called {path.stem} as well; scores are named by the file")
        try:
            pairs = similarity.read_pairs(path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        except ValueError as error:
            raise UserError(f"{path}: should be lines of word, word and score, separated by tabs: {error}") from None
        # Some editors begin a file with a byte-order mark, which is no part of a word.
        sets[path.stem] = [(first.removeprefix("\ufeff"), second, score) for first, second, score in pairs]
    return sets


def measure_similarity(
    model: Model, matrix: Any, arrangement: Arrangement, sets: Mapping[str, Sequence[Pair]], notes: Notes
) -> Metrics:
    """Compute Spearman's correlation x 100 with the human scores of each set of word pairs.

    Pairs with a word that has no row are left out, and sets without other pairs are noted. The rows of the matrix, an array
    or OrderedRows, are in the order of the arrangement. Raise UserError if no set has a pair with rows for both words.
    """
    if arrangement.is_foreign or (model.tokenizer is None and model.row_names is None):
        raise UserError("the tokens of the rows are not known")
    words = {word for pairs in sets.values() for pair in pairs for word in pair[:2]}
    positions, form = _find_positions(model, arrangement.rows, sorted(words))
    placed = {name: [pair for pair in pairs if positions[pair[0]] and positions[pair[1]]] for name, pairs in sets.items()}
    known = {name: pairs for name, pairs in placed.items() if pairs}
    if not known:
        raise UserError(f"no pair of {', '.join(sets)} has rows for both words")
    for name in (name for name in sets if name not in known):
        notes.append(f"word similarity of {name}: no pair has rows for both words")
    share = {name: len(pairs) / len(sets[name]) for name, pairs in known.items()}
    metrics: Metrics = {"similarity_pairs": (share, f"share-with-a-row|form:{form}")}
    for prefix, variant, how in _variants(matrix, arrangement):
        value, signature = similarity.word_similarity(variant, known, positions.__getitem__, form=form)
        for name in (name for name, number in value.items() if number is None):
            equal = "fewer than two pairs, or equal human scores or equal cosines of all pairs"
            notes.append(f"{prefix}spearman.{name} is not defined: {equal}")
        metrics[f"{prefix}spearman"] = value, how + signature.replace("pairs:all", "pairs:with-a-row")
    return metrics


def _variants(matrix: Any, arrangement: Arrangement) -> Iterator[tuple[str, Any, str]]:
    """Yield the prefix of the metric, the rows, and the prefix of the signature, for each variant of the embedding."""
    yield "", matrix, ""
    without_top, how = all_but_top(matrix, arrangement.groups)
    yield "all_but_top.", without_top, f"{how}|"
    counts = arrangement.counts
    if counts is not None and np.count_nonzero(counts[members(arrangement.groups)["total"]]) > 1:
        mean, directions = whitening(matrix, counts, arrangement.groups)
        yield "zipfian.", Whitened(matrix, mean, directions), f"zipfian-whitening|directions:{directions.shape[1]}|"


def _find_positions(model: Model, rows: np.ndarray, words: list[str]) -> tuple[dict[str, list[int]], str]:
    """Return the positions of each word's subword tokens, and the form of the encoded words.

    A word has no positions if one of its tokens is unknown or has no row.
    """
    position_of = {int(row): position for position, row in enumerate(rows) if row >= 0}
    if model.tokenizer is not None:
        first = model.tokenizer.encode([" a"])[0]
        has_space = bool(first) and model.tokenizer.tokens.get(first[0], "").startswith(SPACE)
        encoded = model.tokenizer.encode([f" {word}" if has_space else word for word in words])
        form = "leading-space"
    else:
        row_of: dict[str, int] = {}
        for row, name in enumerate(model.row_names or []):
            row_of.setdefault(name, row)  # the first of several rows
        encoded, form = [[row_of[word]] if word in row_of else [] for word in words], "word"
    position_of.pop(model.special_ids[UNK], None)
    placed = [[position_of.get(row, -1) for row in ids] for ids in encoded]
    return {word: [] if -1 in positions else positions for word, positions in zip(words, placed, strict=True)}, form
