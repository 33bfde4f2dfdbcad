"""The measurement of a model: each of its embeddings, and its predictions for a text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raretokens.errors import UserError
from raretokens.evaluation.geometry import geometry_metrics
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.frequency import lengths, norm_by_frequency, zipfian_whitening
from raretokens.evaluation.metrics.rows import evenly, members
from raretokens.evaluation.metrics.similarity import Pair
from raretokens.evaluation.metrics.spectrum import indicators, projection, singular_values
from raretokens.evaluation.score_files import Metrics
from raretokens.tokenization.vocabulary import FILLER, GROUP_NAMES
from raretokens.tools.measure import predictions, streaming
from raretokens.tools.measure.formats import DTYPE_NAMES
from raretokens.tools.measure.model import TIED, Model
from raretokens.tools.measure.row_order import Arrangement, OrderedRows, arrange_rows
from raretokens.tools.measure.tokenizers import Texts, can_produce, count_tokens, read_ids
from raretokens.tools.measure.word_similarity import measure_similarity

Report = Callable[[str], object]  # called with what happens next
MAX_POINTS, MAX_CANDIDATES = 400, 1000  # of a group in a figure; of an embedding in the list


@dataclass(frozen=True)
class Options:
    """What is measured, and how."""

    texts: Texts | None = None
    fractions: list[float] | None = None  # of the types that are frequent, medium and rare
    is_sorted: bool = False  # ids follow frequency
    similarity_sets: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    max_tokens: int | None = None  # of the text that is read
    reading: Mapping[str, int] = field(default_factory=dict)  # fields of predictions.Reading


@dataclass
class Measurement:
    """A measured embedding; the last one of a causal model also has the metrics of a text."""

    model: str
    embedding: str  # a key of Model.embeddings
    facts: dict[str, Any]
    metrics: Metrics
    candidates: list[dict[str, Any]]  # for under-trained rows
    points: list[tuple[str, str, float, float]]  # of figures: series, group, x, y
    row_groups: np.ndarray  # frequency group of each row of the file
    bootstrap: Replicates = field(default_factory=dict)  # of metrics of a text

    @property
    def title(self) -> str:
        return self.model if self.embedding in ("table", TIED) else f"{self.model}, {self.embedding}"


def measure_model(model: Model, options: Options, report: Report) -> list[Measurement]:
    """Measure every embedding, and the predictions for the text if there is one."""
    counts, tokenizer, texts = None, model.tokenizer, options.texts
    if texts:
        if tokenizer is None:
            raise UserError(f"{model.path}: no tokenizer that can be read, which a text needs; leave --text out")
        counts = count_tokens(tokenizer, texts.counted, model.line_end)
    measurements = [
        measure_embedding(
            model,
            name,
            arrange_rows(model, stored.shape[0], counts, options.fractions, options.is_sorted),
            report,
            options.similarity_sets,
        )
        for name, stored in model.embeddings.items()
    ]
    if texts:
        reading = predictions.Reading(**model.reading | options.reading).within(model.max_positions)
        if reading.context >= reading.window:
            raise UserError(
                f"--context: {reading.context} is not allowed: should be below the window of {reading.window}"
            )
        if causal := predictions.load_causal_model(model, reading, report):
            ids = read_ids(tokenizer, texts.read, model.line_end, options.max_tokens)
            last = measurements[-1]
            metrics, last.bootstrap = predictions.measure_text(model, causal, ids, last.row_groups, reading)
            last.metrics.update(metrics)
    return measurements


def measure_embedding(
    model: Model, name: str, arrangement: Arrangement, report: Report, sets: Mapping[str, Sequence[Pair]] | None = None
) -> Measurement:
    """Compute all metrics of one embedding; sets: of word similarity, by name."""
    stored, groups, counts = model.embeddings[name], arrangement.groups, arrangement.counts
    streamed = OrderedRows(stored, arrangement.rows)
    is_streamed = streaming.is_large(*stored.shape)
    matrix = streamed if is_streamed else streamed.in_memory()
    report("geometry")
    metrics: Metrics = geometry_metrics(matrix, groups, counts)
    if counts is not None:
        report("frequency")
        metrics["norm_by_frequency"] = norm_by_frequency(matrix, counts, groups)
        metrics |= zipfian_whitening(matrix, counts, groups)
    if sets:
        report("word similarity")
        metrics |= measure_similarity(model, matrix, arrangement, sets)
    if is_streamed:
        size = stored.shape[1], len(members(groups)["total"])
        metrics = {
            path: (value, how + streaming.signature_suffix(*size, path)) for path, (value, how) in metrics.items()
        }
    report("under-trained rows")
    undertrained, candidates = _find_undertrained(model, matrix, arrangement)
    points = list(_figure_points(matrix, arrangement))
    row_groups = np.full(stored.shape[0], FILLER, np.int8)
    row_groups[arrangement.rows[arrangement.rows >= 0]] = groups[arrangement.rows >= 0]
    facts = {
        "file": stored.path.name,
        "tensor": stored.name,
        "rows": stored.shape[0],
        "width": stored.shape[1],
        "stored as": DTYPE_NAMES[stored.dtype],
        "output bias": "yes" if model.has_output_bias else "no",
        "measured rows": len(members(groups)["total"]),
        "types that occur": None if counts is None else int(np.sum(counts > 0)),
    }
    return Measurement(model.name, name, facts, _drop_missing(metrics | undertrained), candidates, points, row_groups)


def _drop_missing(metrics: Metrics) -> Metrics:
    """Drop metrics and groups without a value."""
    return {
        path: ({key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value, how)
        for path, (value, how) in metrics.items()
        if value is not None
    }


def _find_undertrained(model: Model, matrix: Any, arrangement: Arrangement) -> tuple[Metrics, list[dict[str, Any]]]:
    """Rows near the mean of the rows that no text uses; without any, of those with the least count."""
    rows, groups, counts = arrangement.rows, arrangement.groups, arrangement.counts
    known, which = np.flatnonzero((groups == FILLER) & (rows >= 0)), "unused"
    if not len(known) and counts is not None:
        every = members(groups)["total"]
        known, which = every[counts[every] == counts[every].min()], "least-count"
    found = indicators(matrix, groups, known, which)
    if found is None:
        return {}, []
    values = {
        "candidates": found.candidates,
        "below": float(found.raw[found.candidates - 1]),
        "median": float(np.median(found.raw)),
    }
    places = [int(place) for place in found.ids[: min(found.candidates, MAX_CANDIDATES)]]
    ids = [int(rows[place]) for place in places]
    produced = can_produce(model.tokenizer, ids) if model.tokenizer else [None] * len(ids)
    return {"undertrained": (values, found.signature)}, [
        {
            "id": ids[rank],
            "piece": arrangement.vocabulary.tokens[place],
            "count": None if counts is None else int(counts[place]),
            "distance": float(found.raw[rank]),
            "less the mean": float(found.centred[rank]),
            "less the first direction": float(found.turned[rank]),
            "tokenizer makes it": produced[rank],
        }
        for rank, place in enumerate(places)
    ]


def _figure_points(matrix: Any, arrangement: Arrangement) -> Iterator[tuple[str, str, float, float]]:
    """Spectrum, projection, and length against frequency."""
    groups, counts, kept = arrangement.groups, arrangement.counts, members(arrangement.groups)
    for rank, value in enumerate(singular_values(matrix, groups)[0], start=1):
        yield "singular_values", "total", float(rank), float(value)
    if not any(len(kept[name]) for name in GROUP_NAMES):
        return
    for group, coordinates in projection(matrix, groups, sample=MAX_POINTS)[0].items():
        yield from (("projection", group, float(x), float(y)) for x, y in coordinates)
    for group in GROUP_NAMES if counts is not None else ():
        ids = kept[group][counts[kept[group]] > 0]
        ids = evenly(ids, MAX_POINTS) if len(ids) else ids
        for count, length in zip(counts[ids], lengths(matrix, ids), strict=True):
            yield "norm", group, float(np.log10(count / counts.sum())), float(length)
