"""The measurement of a model: the metrics of each of its embeddings, and of its predictions for a text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from raretokens.errors import UserError
from raretokens.measure import causal_predictions, row_bootstrap, streaming
from raretokens.measure.candidates import find_candidates
from raretokens.measure.embeddings import MATRIX, TIED
from raretokens.measure.model import Model
from raretokens.measure.notes import Notes, Report, length_note
from raretokens.measure.row_order import Arrangement, OrderedRows, arrange_rows
from raretokens.measure.texts import TextPaths, count_tokens, estimate_counts, has_windows_line_ends, read_ids
from raretokens.measure.word_similarity import measure_similarity
from raretokens.metrics.frequency import lengths, norm_by_frequency, zipfian_whitening
from raretokens.metrics.geometry import all_but_top_geometry, frequency_geometry, row_geometry
from raretokens.metrics.rows import evenly, members
from raretokens.metrics.score_files import Metrics, Point, Replicates
from raretokens.metrics.similarity import Pair
from raretokens.metrics.spectrum import projection, singular_values
from raretokens.vocabulary import FILLER, FREQ, GROUP_NAMES, MED, SPECIALS

MAX_POINTS = 400  # per group in a figure


@dataclass(frozen=True)
class MeasureOptions:
    """Inputs and settings of a measurement."""

    texts: TextPaths | None = None
    fractions: list[float] | None = None  # shares of the token types that are frequent, medium and rare
    is_sorted: bool = False  # whether token ids are sorted by falling frequency
    languages: str | None = None  # languages of wordfreq, from which frequencies are estimated where no text is given
    similarity_sets: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    max_tokens: int | None = None  # tokens of the text that are read at most
    reading: Mapping[str, Any] = field(default_factory=dict)  # fields of causal_predictions.Reading
    has_intervals: bool = False  # whether the geometry gets bootstrap replicates, as a comparison needs


@dataclass
class Measurement:
    """A measured embedding. The output embedding of a causal model also has the metrics of a text."""

    model: str
    embedding: str  # role of the embedding, a key of Model.embeddings
    facts: dict[str, Any]
    metrics: Metrics
    row_groups: np.ndarray  # frequency group of each row in the file
    row_ranks: np.ndarray | None  # its rank by falling count, from 1; 0 of special tokens; None if no text was counted
    notes: Notes  # assumptions, and parts that were left out, with the reason
    candidates: list[dict[str, Any]] = field(default_factory=list)  # candidates for under-trained rows
    points: list[Point] = field(default_factory=list)  # of figures
    bootstrap: Replicates = field(default_factory=dict)  # metrics on bootstrapped texts or token types

    @property
    def title(self) -> str:
        return self.model if self.embedding in (MATRIX, TIED) else f"{self.model}, {self.embedding}"


def measure_model(model: Model, options: MeasureOptions, report: Report) -> list[Measurement]:
    """Measure every embedding, and the predictions for the text if there is one. Note parts that fail, and leave them out."""
    notes = Notes(report=report)
    for note in model.notes:
        notes.append(note)
    counts, origin = _find_counts(model, options, notes)
    measurements = []
    for role, stored in model.embeddings.items():
        known, rows = None if model.is_foreign(role) else counts, stored.shape[0]
        arrangement = arrange_rows(model, role, known, options.fractions, options.is_sorted)
        one = measure_embedding(model, role, arrangement, options, report, origin)
        if options.texts and known is not None and (absent := _absent(arrangement)):
            one.notes.append(
                f"{role} embedding: {absent} of the frequent and medium types do not occur in the text; their order is that of "
                "their ids alone, so a longer text gives other groups"
            )
        if known is None and counts is not None:
            one.notes.append(f"{role} embedding: no frequencies, since it has a vocabulary of its own")
        elif known is not None and (beyond := int(known[rows:].sum())):
            one.notes.append(f"{role} embedding: {beyond} of the counted tokens have ids beyond its {rows} rows")
        measurements.append(one)
    if options.texts and model.tokenizer is not None:
        last = next((one for one in measurements if "output" in one.embedding), measurements[-1])
        with notes.optional("perplexity, Uniq and continuations"):
            metrics, replicates = _measure_text(model, options, last)
            last.bootstrap |= replicates
            last.metrics.update(_drop_missing(metrics, last.notes))
    for one in measurements:
        one.notes[:0] = notes
    return measurements


def _absent(arrangement: Arrangement) -> int:
    """Return how many frequent and medium types do not occur in the counted text, without special tokens."""
    assert arrangement.counts is not None
    is_absent = (arrangement.counts == 0) & np.isin(arrangement.groups, (FREQ, MED))
    return int(np.sum(is_absent[len(SPECIALS) :]))


def count_parts(model: Model, options: MeasureOptions) -> int:
    """Return how many parts measure_model() reports at most, for a progress bar."""
    has_counts = bool(options.texts or options.languages)
    each = 3 + 3 * has_counts + bool(options.similarity_sets) + options.has_intervals
    return len(model.embeddings) * each + bool(options.texts)


def _find_counts(model: Model, options: MeasureOptions, notes: Notes) -> tuple[np.ndarray | None, str]:
    """Return the count of each token, and the part of signatures that names frequencies which are not counted in a text."""
    if options.texts and model.tokenizer is None:
        notes.append("frequencies, perplexity, Uniq and continuations left out: no tokenizer that can be read")
    elif options.texts:
        _note_line_ends(model, options.texts, notes)
        with notes.optional("frequencies"):
            return count_tokens(model.tokenizer, options.texts.counted, model.line_end), ""
    elif options.languages:
        with notes.optional("frequencies"):
            counts, origin = estimate_counts(model, options.languages)
            notes.append(f"frequencies are an estimate from the words of wordfreq ({options.languages}), not counts")
            return counts, origin
    if options.is_sorted:
        notes.append("frequency groups follow the order of ids; in vocabularies of BPE this order is only a proxy for frequency")
        return None, "frequencies:order-of-ids"
    return None, ""


def _note_line_ends(model: Model, texts: TextPaths, notes: Notes) -> None:
    for path in dict.fromkeys(texts):
        if model.line_end is None and has_windows_line_ends(path):
            notes.append(f"{path.name}: lines end in \\r\\n, so a tokenizer may give tokens for \\r; dos2unix converts the text")


def _measure_text(model: Model, options: MeasureOptions, one: Measurement) -> tuple[Metrics, Replicates]:
    reading = causal_predictions.Reading(**model.reading | options.reading).within(model.max_positions)
    if reading.context >= reading.window:
        raise UserError(f"--context: {reading.context} is not allowed: should be below the window of {reading.window}")
    causal = causal_predictions.load_causal_model(model)
    if causal.dtype != torch.float32:
        name = str(causal.dtype).removeprefix("torch.")
        one.notes.append(f"the model reads the text in {name}, as its weights are stored")
    if model.begin is None:
        one.notes.append("no start token is known: id 0 stands before the text")
    one.notes.report("text")
    ids = read_ids(model.tokenizer, options.texts.read, model.line_end, options.max_tokens)
    return causal_predictions.measure_text(model, causal, ids, one.row_groups, reading, one.notes, one.row_ranks)


@np.errstate(all="ignore")  # values that are not finite are noted
def measure_embedding(
    model: Model, role: str, arrangement: Arrangement, options: MeasureOptions, report: Report, origin: str = ""
) -> Measurement:
    """Compute all metrics of the embedding with this role, whose rows are arranged in metric order.

    `origin` is the part of signatures that says where frequencies are from. It is empty for counts of a text.
    """
    stored, groups, notes = model.embeddings[role], arrangement.groups, Notes(report=report)
    matrix: OrderedRows | np.ndarray = OrderedRows(stored, arrangement.rows)
    work = stored.shape[0] * stored.shape[1] ** 2
    is_streamed = work > streaming.MAX_WORK
    if not is_streamed:
        matrix = matrix[:]
    row_groups = np.full(stored.shape[0], FILLER, np.int8)
    row_groups[arrangement.rows[arrangement.rows >= 0]] = groups[arrangement.rows >= 0]
    facts = _facts(model, role, arrangement, origin)
    one = Measurement(model.name, role, facts, {}, row_groups, arrangement.ranks(stored.shape[0]), notes)
    if len(arrangement.excluded):
        some = ", ".join(map(str, arrangement.excluded[:5]))
        notes.append(f"{role} embedding: rows with NaN or Inf are left out: {len(arrangement.excluded)} (ids {some})")
    metrics: Metrics = {}
    for part, compute in _parts(model, matrix, arrangement, options.similarity_sets, notes).items():
        report(part)
        with notes.optional(part):
            metrics |= compute()
    if is_streamed:
        size = stored.shape[1], len(members(groups)["total"])
        metrics = {path: (value, how + streaming.signature_suffix(*size, path)) for path, (value, how) in metrics.items()}
    report("under-trained rows")
    with notes.optional("under-trained rows"):
        undertrained, one.candidates = find_candidates(model, matrix, arrangement, notes)
        metrics |= undertrained
    with notes.optional("figures"):
        one.points = list(_figure_points(matrix, arrangement))
    if options.has_intervals and work <= row_bootstrap.MAX_WORK:
        report("intervals")
        with notes.optional("intervals of the geometry"):
            one.bootstrap = row_bootstrap.row_replicates(matrix, groups, arrangement.vocabulary.tokens)
    suffix = (f"|{origin}" if origin else "") + stored.signature_suffix
    one.metrics = _drop_missing({path: (value, how + suffix) for path, (value, how) in metrics.items()}, notes)
    if note := length_note(one.metrics):
        notes.append(f"{role} embedding: {note}")
    return one


def _parts(
    model: Model, matrix: Any, arrangement: Arrangement, sets: Mapping[str, Sequence[Pair]], notes: Notes
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
        parts["word similarity"] = lambda: measure_similarity(model, matrix, arrangement, sets, notes)
    return parts


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


def _drop_missing(metrics: Metrics, notes: Notes) -> Metrics:
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
        notes.append(f"left out, since NaN or infinite: {', '.join(wrong)}")
    return {path: (value, how) for path, (value, how) in kept.items() if value is not None}


def _figure_points(matrix: Any, arrangement: Arrangement) -> Iterator[Point]:
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
