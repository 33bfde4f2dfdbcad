"""The measurement of a model: every table of it, and what it says of a text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raretokens.evaluation.geometry import of_counts, of_rows, without_the_top
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.frequency import lengths, norm_by_frequency, zipfian_whitening
from raretokens.evaluation.metrics.rows import evenly, members
from raretokens.evaluation.metrics.similarity import Pair
from raretokens.evaluation.metrics.spectrum import Indicators, indicators, projection, singular_values
from raretokens.evaluation.score_files import Signed
from raretokens.tokenization.vocabulary import FILLER, GROUP_NAMES, Vocabulary
from raretokens.tools.measure import row_order as ordered
from raretokens.tools.measure import streaming as large
from raretokens.tools.measure import word_similarity as similarity
from raretokens.tools.measure.formats import NAMES, Stored
from raretokens.tools.measure.model import Model
from raretokens.tools.measure.row_order import Ordered
from raretokens.tools.measure.tokenizers import can_make

Say = Callable[[str], object]
FRACTIONS = {"fractions": [0.3, 0.5, 0.2], "boundaries": None}  # of the types: those of AGG
DRAWN, LISTED = 400, 1000  # points a group; candidates of a table that are listed at most


@dataclass
class Measured:
    """A table, measured."""

    model: str
    table: str  # which of the model's
    facts: dict[str, Any]
    metrics: Signed
    candidates: list[dict[str, Any]]
    points: list[tuple[str, str, float, float]]  # series, group, x, y
    by_row: np.ndarray  # frequency group of each row of the file
    drawn: Replicates = field(default_factory=dict)

    @property
    def title(self) -> str:
        tied = self.table in ("table", "input and output (tied)")
        return self.model if tied else f"{self.model}, {self.table}"


@dataclass(frozen=True)
class Counted:
    """What is known of the rows of a model."""

    used: np.ndarray  # rows, whether text can use them
    counts: np.ndarray | None  # rows
    declared: dict[str, Any] | None  # frequency groups; None without counts and order


def counted(
    model: Model, rows: int, counts: np.ndarray | None, fractions: list[float] | None, is_sorted: bool
) -> Counted:
    """counts: of each row, from a text; is_sorted: ids follow frequency, which gives groups without counts."""
    used = np.array([bool(model.named(row)) for row in range(rows)]) if _has_names(model) else np.ones(rows, bool)
    counts = model.counts if counts is None else counts
    if counts is not None:
        counts = np.pad(counts[:rows], (0, max(0, rows - len(counts))))
    declared = None
    if counts is not None or is_sorted:
        declared = {"fractions": fractions, "boundaries": None} if fractions else model.groups or FRACTIONS
    return Counted(used, counts, declared)


def _has_names(model: Model) -> bool:
    return model.names is not None or model.pieces is not None


def table(
    model: Model, name: str, stored: Stored, known: Counted, say: Say, sets: Mapping[str, Sequence[Pair]] | None = None
) -> Measured:
    """All metrics of one table; sets: of word similarity, by name."""
    rows = ordered.order(len(known.used), model.marks, known.used, known.counts)
    names = [model.named(row) for row in range(len(known.used))]
    unused = int(np.sum(~known.used[rows[4:]]))
    vocabulary = ordered.vocabulary(rows, names, known.counts, unused)
    groups = ordered.groups(vocabulary, rows, known.declared)
    view = Ordered(stored, rows)
    is_large = large.is_large(*stored.shape)
    read = view if is_large else view.whole()
    say("geometry")
    metrics: Signed = {**of_rows(read, groups), **without_the_top(read, groups)}
    if known.counts is not None:
        say("frequency")
        metrics |= of_counts(read, groups, vocabulary.counts)
        metrics["norm_by_frequency"] = norm_by_frequency(read, vocabulary.counts, groups)
        metrics |= zipfian_whitening(read, vocabulary.counts, groups)
    if sets:
        say("word similarity")
        counts = None if known.counts is None else vocabulary.counts
        metrics |= similarity.measured(model, read, rows, groups, counts, sets)
    if is_large:
        width, height = stored.shape[1], len(members(groups)["total"])
        metrics = {path: (value, how + large.remark(width, height, path)) for path, (value, how) in metrics.items()}
    say("under-trained rows")
    found, listed = _undertrained(model, read, vocabulary, groups, rows, known.counts is not None)
    if found:
        shown = found.raw[: found.candidates]
        metrics["undertrained"] = (
            {"candidates": found.candidates, "below": float(shown[-1]), "median": float(np.median(found.raw))},
            found.signature,
        )
    points = list(_points(read, vocabulary, groups, known.counts is not None))
    by_row = np.full(len(known.used), FILLER, np.int8)
    by_row[rows[rows >= 0]] = groups[rows >= 0]
    return Measured(model.name, name, _facts(model, stored, groups, known), _plain(metrics), listed, points, by_row)


def _facts(model: Model, stored: Stored, groups: np.ndarray, known: Counted) -> dict[str, Any]:
    every = members(groups)["total"]
    return {
        "file": stored.path.name,
        "tensor": stored.name,
        "rows": stored.shape[0],
        "width": stored.shape[1],
        "stored as": NAMES[stored.kind],
        "output bias": "yes" if model.bias else "no",
        "measured rows": len(every),
        "types that occur": None if known.counts is None else int(np.sum(known.counts > 0)),
    }


def _plain(metrics: Signed) -> Signed:
    """Without groups that have no value."""
    return {
        path: (
            {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value,
            how,
        )
        for path, (value, how) in metrics.items()
        if value is not None
    }


def _undertrained(
    model: Model, read: np.ndarray, vocabulary: Vocabulary, groups: np.ndarray, rows: np.ndarray, is_counted: bool
) -> tuple[Indicators | None, list[dict[str, Any]]]:
    known, which = np.flatnonzero((groups == FILLER) & (rows >= 0)), "unused"
    if not len(known) and is_counted:
        every = members(groups)["total"]
        least = vocabulary.counts[every].min()
        known, which = every[vocabulary.counts[every] == least], "least-count"
    found = indicators(read, groups, known, which)
    if found is None:
        return None, []
    first = [int(place) for place in found.ids[: min(found.candidates, LISTED)]]
    makes = can_make(model.pieces, [int(rows[place]) for place in first]) if model.pieces else [None] * len(first)
    return found, [
        {
            "id": int(rows[place]),
            "piece": vocabulary.pieces[place],
            "count": int(vocabulary.counts[place]) if is_counted else None,
            "distance": float(found.raw[number]),
            "less the mean": float(found.centred[number]),
            "less the first direction": float(found.turned[number]),
            "tokenizer makes it": made,
        }
        for number, (place, made) in enumerate(zip(first, makes, strict=True))
    ]


def _points(read: np.ndarray, vocabulary: Vocabulary, groups: np.ndarray, is_counted: bool):
    """Projection, spectrum, and length against frequency."""
    for rank, value in enumerate(singular_values(read, groups)[0], start=1):
        yield "singular_values", "total", float(rank), float(value)
    kept = members(groups)
    if not any(len(kept[name]) for name in GROUP_NAMES):
        return
    for group, coordinates in projection(read, groups, sample=DRAWN)[0].items():
        yield from (("projection", group, float(x), float(y)) for x, y in coordinates)
    if is_counted:
        for group in GROUP_NAMES:
            ids = kept[group][vocabulary.counts[kept[group]] > 0]
            ids = evenly(ids, DRAWN) if len(ids) else ids
            for count, length in zip(vocabulary.counts[ids], lengths(read, ids) if len(ids) else (), strict=True):
                yield "norm", group, float(np.log10(count / vocabulary.counts.sum())), float(length)
