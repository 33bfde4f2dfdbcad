"""The measurement of a model: the metrics of each of its embeddings, and of its predictions for a text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from raretokens.errors import UserError
from raretokens.evaluation.geometry import all_but_top_geometry, frequency_geometry, row_geometry
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.frequency import lengths, norm_by_frequency, zipfian_whitening
from raretokens.evaluation.metrics.rows import evenly, members
from raretokens.evaluation.metrics.similarity import Pair
from raretokens.evaluation.metrics.spectrum import projection, singular_values
from raretokens.evaluation.metrics.undertrained import INDICATORS, find_undertrained
from raretokens.evaluation.score_files import Metrics
from raretokens.tokenization.vocabulary import FILLER, GROUP_NAMES, SPECIALS
from raretokens.tools.measure import predictions, row_bootstrap, streaming
from raretokens.tools.measure.embeddings import MATRIX, TIED
from raretokens.tools.measure.explanations import explain
from raretokens.tools.measure.frequencies import estimate_counts
from raretokens.tools.measure.model import Model
from raretokens.tools.measure.notes import Report, add_note, optional
from raretokens.tools.measure.row_order import Arrangement, OrderedRows, arrange_rows, find_nonfinite_rows
from raretokens.tools.measure.texts import Texts, count_tokens, read_ids
from raretokens.tools.measure.tokenizers import can_reach
from raretokens.tools.measure.word_similarity import measure_similarity

MAX_POINTS, MAX_CANDIDATES = 400, 1000  # points per group in a figure; candidates per embedding in the list


@dataclass(frozen=True)
class Options:
    """Inputs and settings of a measurement."""

    texts: Texts | None = None
    fractions: list[float] | None = None  # shares of the token types that are frequent, medium and rare
    is_sorted: bool = False  # whether token ids are sorted by falling frequency
    languages: str | None = None  # languages of wordfreq, from which frequencies are estimated where no text is given
    similarity_sets: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    max_tokens: int | None = None  # tokens of the text that are read at most
    reading: Mapping[str, int] = field(default_factory=dict)  # fields of predictions.Reading
    has_intervals: bool = False  # whether the geometry gets bootstrap replicates, as a comparison needs


@dataclass
class Measurement:
    """A measured embedding. The output embedding of a causal model also has the metrics of a text."""

    model: str
    embedding: str  # role of the embedding, a key of Model.embeddings
    facts: dict[str, Any]
    metrics: Metrics
    candidates: list[dict[str, Any]]  # candidates for under-trained rows
    points: list[tuple[str, str, float, float]]  # points of figures: series, group, x, y
    row_groups: np.ndarray  # frequency group of each row in the file
    notes: list[str] = field(default_factory=list)  # assumptions, and parts that were left out, with the reason
    bootstrap: Replicates = field(default_factory=dict)  # metrics on bootstrapped texts or token types

    @property
    def title(self) -> str:
        return self.model if self.embedding in (MATRIX, TIED) else f"{self.model}, {self.embedding}"


def measure_model(model: Model, options: Options, report: Report) -> list[Measurement]:
    """Measure every embedding, and the predictions for the text if there is one. Note parts that fail, and leave them out."""
    notes: list[str] = []
    for note in model.notes:
        add_note(note, notes, report)
    counts, origin = _find_counts(model, options, notes, report)
    measurements = []
    for role, stored in model.embeddings.items():
        wrong = find_nonfinite_rows(stored)
        has_counts = counts is not None and not model.is_foreign(role)
        arrangement = arrange_rows(
            model, role, counts if has_counts else None, options.fractions, options.is_sorted, excluded=wrong
        )
        one = measure_embedding(
            model, role, arrangement, report, options.similarity_sets, origin, options.has_intervals
        )
        if counts is not None and not has_counts:
            add_note(f"{role} embedding: no frequencies, since it has a vocabulary of its own", one.notes, report)
        elif counts is not None and (beyond := int(counts[stored.shape[0] :].sum())):
            rows = stored.shape[0]
            add_note(
                f"{role} embedding: {beyond} of the counted tokens have ids beyond its {rows} rows", one.notes, report
            )
        measurements.append(one)
    if options.texts and model.tokenizer is not None:
        last = next((one for one in measurements if "output" in one.embedding), measurements[-1])
        with optional("perplexity, Uniq and continuations", notes, report):
            metrics, replicates = _measure_text(model, options, last, report)
            last.bootstrap |= replicates
            last.metrics.update(_drop_missing(metrics, last.notes, report))
    for one in measurements:
        one.notes[:0] = notes
    return measurements


def count_parts(model: Model, options: Options) -> int:
    """Return how many parts measure_model() reports at most, for a progress bar."""
    has_counts = bool(options.texts or options.languages or model.counts is not None)
    each = 3 + 3 * has_counts + bool(options.similarity_sets) + options.has_intervals
    return len(model.embeddings) * each + bool(options.texts)


def _find_counts(model: Model, options: Options, notes: list[str], report: Report) -> tuple[np.ndarray | None, str]:
    """Return the count of each token, and the part of signatures that names frequencies which are not counted in a text."""
    if options.texts:
        return _count_text(model, options.texts, notes, report), ""
    if options.languages:
        with optional("frequencies", notes, report):
            counts, origin = estimate_counts(model, options.languages)
            add_note(
                f"frequencies are an estimate from the words of wordfreq ({options.languages}), not counts",
                notes,
                report,
            )
            return counts, origin
    elif options.is_sorted and model.counts is None:
        note = (
            "frequency groups follow the order of ids; in vocabularies of BPE this order is only a proxy for frequency"
        )
        add_note(note, notes, report)
        return None, "frequencies:order-of-ids"
    return None, ""


def _count_text(model: Model, texts: Texts, notes: list[str], report: Report) -> np.ndarray | None:
    if model.tokenizer is None:
        add_note(
            "frequencies, perplexity, Uniq and continuations left out: no tokenizer that can be read", notes, report
        )
        return None
    with optional("frequencies", notes, report):
        return count_tokens(model.tokenizer, texts.counted, model.line_end)
    return None


def _measure_text(model: Model, options: Options, one: Measurement, report: Report) -> tuple[Metrics, Replicates]:
    reading = predictions.Reading(**model.reading | options.reading).within(model.max_positions)
    if reading.context >= reading.window:
        raise UserError(f"--context: {reading.context} is not allowed: should be below the window of {reading.window}")
    causal = predictions.load_causal_model(model, reading)
    if causal.dtype != torch.float32:
        name = str(causal.dtype).removeprefix("torch.")
        add_note(f"the model reads the text in {name}, as its weights are stored", one.notes, report)
    if model.begin is None:
        add_note("no start token is known: id 0 stands before the text", one.notes, report)
    report("text")
    ids = read_ids(model.tokenizer, options.texts.read, model.line_end, options.max_tokens)
    return predictions.measure_text(model, causal, ids, one.row_groups, reading)


def measure_embedding(
    model: Model,
    role: str,
    arrangement: Arrangement,
    report: Report,
    sets: Mapping[str, Sequence[Pair]] | None = None,
    origin: str = "",
    has_intervals: bool = True,
) -> Measurement:
    """Compute all metrics of one embedding.

    Args:
        model: the model.
        role: role of the embedding, a key of model.embeddings.
        arrangement: the rows of the embedding in metric order.
        report: called with each part and note.
        sets: word-similarity sets by name.
        origin: part of signatures that says where frequencies are from; empty for counts of a text.
        has_intervals: whether to compute bootstrap replicates of the geometry.
    """
    stored, groups = model.embeddings[role], arrangement.groups
    streamed = OrderedRows(stored, arrangement.rows)
    is_streamed = streaming.is_large(*stored.shape)
    matrix = streamed if is_streamed else streamed.in_memory()
    notes: list[str] = []
    if len(arrangement.excluded):
        some = ", ".join(map(str, arrangement.excluded[:5]))
        add_note(
            f"{role} embedding: rows with NaN or Inf are left out: {len(arrangement.excluded)} (ids {some})",
            notes,
            report,
        )
    metrics: Metrics = {}
    for part, compute in _parts(model, matrix, arrangement, sets or {}).items():
        report(part)
        with optional(part, notes, report), np.errstate(all="ignore"):  # values that are not finite are noted below
            metrics |= compute()
    for name in _sets_without_pairs(metrics, sets or {}):
        add_note(f"word similarity of {name}: no pair has rows for both words", notes, report)
    if is_streamed:
        size = stored.shape[1], len(members(groups)["total"])
        metrics = {
            path: (value, how + streaming.signature_suffix(*size, path)) for path, (value, how) in metrics.items()
        }
    report("under-trained rows")
    undertrained, candidates, points = {}, [], []
    with optional("under-trained rows", notes, report), np.errstate(all="ignore"):
        undertrained, candidates = _find_undertrained(model, matrix, arrangement, notes, report)
    with optional("figures", notes, report), np.errstate(all="ignore"):
        points = list(_figure_points(matrix, arrangement))
    bootstrap: Replicates = {}
    if has_intervals and stored.shape[0] * stored.shape[1] ** 2 <= row_bootstrap.MAX_WORK:
        report("intervals")
        with optional("intervals of the geometry", notes, report), np.errstate(all="ignore"):
            bootstrap = row_bootstrap.row_replicates(matrix, groups, arrangement.vocabulary.tokens)
    row_groups = np.full(stored.shape[0], FILLER, np.int8)
    row_groups[arrangement.rows[arrangement.rows >= 0]] = groups[arrangement.rows >= 0]
    how = (f"|{origin}" if origin else "") + stored.signature_suffix
    metrics = {path: (value, f"{before}{how}") for path, (value, before) in (metrics | undertrained).items()}
    metrics = _drop_missing(metrics, notes, report)
    facts = _facts(model, role, arrangement, origin)
    return Measurement(model.name, role, facts, metrics, candidates, points, row_groups, notes, bootstrap)


def _parts(
    model: Model, matrix: Any, arrangement: Arrangement, sets: Mapping[str, Sequence[Pair]]
) -> dict[str, Callable[[], Metrics]]:
    """Return the metrics of an embedding by part, each of which can fail alone. `matrix`: the rows in metric order."""
    groups, counts = arrangement.groups, arrangement.counts
    parts: dict[str, Callable[[], Metrics]] = {"geometry": lambda: row_geometry(matrix, groups)}
    if counts is not None:
        parts["frequency probe"] = lambda: frequency_geometry(matrix, groups, counts)
    parts["geometry without the top directions"] = lambda: all_but_top_geometry(matrix, groups)
    if counts is not None:
        parts["norms by frequency"] = lambda: {"norm_by_frequency": norm_by_frequency(matrix, counts, groups)}
        parts["Zipfian whitening"] = lambda: zipfian_whitening(matrix, counts, groups)
    if sets:
        parts["word similarity"] = lambda: measure_similarity(model, matrix, arrangement, sets)
    return parts


def _sets_without_pairs(metrics: Metrics, sets: Iterable[str]) -> list[str]:
    """Return the word-similarity sets of which no pair was compared; none if similarity was not computed."""
    if "similarity_pairs" not in metrics:
        return []
    return [name for name in sets if name not in metrics["similarity_pairs"][0]]


def _facts(model: Model, role: str, arrangement: Arrangement, origin: str) -> dict[str, Any]:
    """Return the facts about an embedding that its page lists. `origin`: as in measure_embedding()."""
    stored, counts = model.embeddings[role], arrangement.counts
    bias = {True: "yes", False: "no", None: None}[model.has_output_bias] if "output" in role or role == MATRIX else None
    return {
        "file": model.path.name if model.path.is_file() else stored.path.name,
        "tensor": stored.name,
        "rows": stored.shape[0],
        "width": stored.shape[1],
        "dtype": stored.form,
        "output bias": bias,
        "measured rows": len(members(arrangement.groups)["total"]),
        "frequencies": origin.partition(":")[2].replace("-", " ") or ("none" if counts is None else "counts of a text"),
        "token types that occur": None if counts is None else int(np.sum(counts > 0)),
    }


def _drop_missing(metrics: Metrics, notes: list[str], report: Report) -> Metrics:
    """Drop metrics and groups without a value. Note the metrics that are NaN or infinite."""
    wrong: list[str] = []

    def drop(path: str, value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: drop(f"{path}.{key}", one) for key, one in value.items()}
            return {key: one for key, one in kept.items() if one is not None} or None
        if value is not None and not np.isfinite(value):
            wrong.append(path)
            return None
        return value

    kept = {path: (drop(path, value), how) for path, (value, how) in metrics.items()}
    if wrong:
        add_note(f"left out, since NaN or infinite: {', '.join(wrong)}", notes, report)
    return {path: (value, how) for path, (value, how) in kept.items() if value is not None}


def _find_undertrained(
    model: Model, matrix: Any, arrangement: Arrangement, notes: list[str], report: Report
) -> tuple[Metrics, list[dict[str, Any]]]:
    """Return how many rows are candidates for under-trained rows, and a list of them with an explanation of each."""
    rows, counts = arrangement.rows, arrangement.counts
    found = find_undertrained(matrix, np.flatnonzero(rows >= 0))
    if found is None:
        return {}, []
    shown = found.candidates[:MAX_CANDIDATES]
    places = found.ids[shown]
    ids = [int(row) for row in rows[places]]
    tokens = [arrangement.vocabulary.tokens[place] for place in places]
    tokenizer = None if arrangement.is_foreign else model.tokenizer
    reachable: list[bool | None] = [None] * len(ids)
    if tokenizer is not None:
        has_token = [rank for rank, token in enumerate(tokens) if token]
        occurring = [counts is not None and bool(counts[places[rank]]) for rank in has_token]
        for rank, is_reached in zip(
            has_token, can_reach(tokenizer, [ids[rank] for rank in has_token], occurring), strict=True
        ):
            reachable[rank] = is_reached
    has_tokens = any(arrangement.vocabulary.tokens[len(SPECIALS) :])
    reasons = explain(tokenizer, ids, tokens, reachable) if has_tokens else [None] * len(ids)
    if reasons.count("none found") > len(reasons) / 2:
        add_note(
            "under-trained rows: most candidates look like ordinary tokens; they may be rare or alike rather than untrained",
            notes,
            report,
        )
    values: dict[str, Any] = {"candidates": len(found.candidates), "share": len(found.candidates) / len(found.ids)}
    by_direction = (
        found.distance is not None and found.distance[found.candidates[found.indicator[found.candidates] == 0]]
    )
    if found.distance is not None and len(by_direction):
        values |= {"below": float(by_direction.max()), "median": float(np.median(found.distance))}
    return {"undertrained": (values, found.signature)}, [
        {
            "id": ids[rank],
            "token": tokens[rank],
            "count": None if counts is None else int(counts[places[rank]]),
            "false-discovery rate": float(found.q[place]),
            "indicator": INDICATORS[found.indicator[place]],
            "distance": None if found.distance is None else float(found.distance[place]),
            "length": float(found.length[place]),
            "reachable": reachable[rank],
            "explanation": reasons[rank],
        }
        for rank, place in enumerate(shown)
    ]


def _figure_points(matrix: Any, arrangement: Arrangement) -> Iterator[tuple[str, str, float, float]]:
    """Yield the points of the figures: spectrum, projection, and length by frequency."""
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
