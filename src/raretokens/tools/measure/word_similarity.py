"""Word similarity of anyone's table: as it is, without its top directions, and whitened under the text's frequencies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.evaluation.metrics import similarity
from raretokens.evaluation.metrics.frequency import whitening
from raretokens.evaluation.metrics.rows import members
from raretokens.evaluation.metrics.similarity import Pair
from raretokens.evaluation.metrics.spectrum import all_but_top
from raretokens.evaluation.score_files import Signed
from raretokens.tools.measure.model import Model

SPACE = "Ġ"  # GPT-2's mark of a space, which stands in front of a word only where the text has one


class White:
    """Rows of a table, whitened when they are asked for; their scale no cosine sees."""

    def __init__(self, table: Any, mean: np.ndarray, matrix: np.ndarray) -> None:
        self.table, self.mean, self.matrix = table, mean, matrix

    def __getitem__(self, ids: Any) -> np.ndarray:
        return (np.asarray(self.table[ids], np.float64) - self.mean) @ self.matrix


def read(paths: Sequence[Path]) -> dict[str, list[Pair]]:
    """Name of a file -> its pairs. UserError where a line is not a word, a word and a number, separated by tabs."""
    sets = {}
    for path in paths:
        try:
            sets[path.stem] = similarity.read_pairs(path)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: should be lines of word, word and score, separated by tabs: {error}") from None
    return sets


def measured(
    model: Model, table: Any, rows: np.ndarray, groups: np.ndarray, counts: np.ndarray | None,
    sets: Mapping[str, Sequence[Pair]],
) -> Signed:  # fmt: skip
    """Spearman's correlation x 100 with people's scores; pairs with a word that the model has no row for are left out.

    table (an array, or Ordered), groups, counts: in the order of `rows`, place -> row of the model's file; counts: None where no
    text was counted.
    """
    places, form = _places(model, rows, {word for pairs in sets.values() for pair in pairs for word in pair[:2]})
    known = {name: [pair for pair in pairs if places[pair[0]] and places[pair[1]]] for name, pairs in sets.items()}
    known = {name: pairs for name, pairs in known.items() if pairs}
    if not known:
        return {}
    share = {name: len(pairs) / len(sets[name]) for name, pairs in known.items()}
    tables: dict[str, tuple[Any, str]] = {"": (table, "")}
    without, how = all_but_top(table, groups)
    tables["all_but_top."] = without, f"{how}|"
    if counts is not None and np.count_nonzero(counts[members(groups)["total"]]) > 1:
        mean, matrix = whitening(table, counts, groups)
        tables["zipfian."] = White(table, mean, matrix), f"zipfian-whitening|directions:{matrix.shape[1]}|"
    found: Signed = {"similarity_pairs": (share, f"share-with-a-row|form:{form}")}
    for name, (one, how) in tables.items():
        value, signature = similarity.word_similarity(one, known, places.__getitem__, form=form)
        found[f"{name}spearman"] = value, how + signature.replace("pairs:all", "pairs:with-a-row")
    return found


def _places(model: Model, rows: np.ndarray, words: set[str]) -> tuple[dict[str, list[int]], str]:
    """Places of each word's pieces, of which <unk> may be one, none where it has no row; and how the words were cut."""
    place_of = {int(row): place for place, row in enumerate(rows) if row >= 0}
    ordered = sorted(words)
    if model.pieces is not None:
        first = model.pieces.encode([" a"])[0]
        is_marked = bool(first) and (model.pieces.piece(first[0]) or "").startswith(SPACE)
        cut = model.pieces.encode([f" {word}" if is_marked else word for word in ordered])
        form = "leading-space"
    else:
        number = {name: row for row, name in enumerate(model.names or [])}
        cut, form = [[number[word]] if word in number else [] for word in ordered], "word"
    placed = [[place_of.get(row, -1) for row in ids] for ids in cut]
    return {word: [] if -1 in places else places for word, places in zip(ordered, placed, strict=True)}, form
