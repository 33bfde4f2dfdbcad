"""Differences between measured models, and lines of text for measurements and differences.

Differences of the geometry and of metrics of a text have paired intervals. A comparison has a verdict in words.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from raretokens.measure.hidden_states import PREFIX
from raretokens.measure.measurement import Measurement
from raretokens.measure.notes import GROUP_NAMES, ISOTROPY, MAX_DIFFERENCE, UNIT_ISOTROPY
from raretokens.metrics.score_files import Metrics, flatten

LAYERS = tuple(f"{PREFIX}{name}." for name in ("mean_cosine", "centred_cosine", "norm"))  # those with intervals
GROUPS = {"freq": "frequent", "med": "medium", "rare": "rare"}
SUMMARY = {
    "isotropy": "I(W)", "isotropy_unit_rms": "I(W), unit length", "cosine.mean": "mean cosine",
    "norm_by_frequency": "mean length", "effective_rank": "effective rank", "iso_score": "IsoScore",
    "frequency_probe.accuracy": "frequency probe, %", "ppl": "perplexity", "uniq": "Uniq",
}  # fmt: skip
LAYER_COLUMNS = {
    "mean_cosine": "mean cosine", "centred_cosine": "minus mean", "iso_score": "IsoScore",
    "first_direction": "1st direction", "norm": "length", "first_norm": "1st position",
}  # fmt: skip


class Difference(NamedTuple):
    """A metric of two embeddings, with an interval of the difference."""

    path: str
    first: float
    second: float
    low: float | None  # bounds of the 95 % interval of second - first
    high: float | None

    @property
    def value(self) -> float:
        return self.second - self.first

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the difference has an interval, and the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class ModelComparison(NamedTuple):
    """Two embeddings with the differences of their metrics."""

    first: str  # titles of measurements
    second: str
    differences: list[Difference]

    @property
    def verdict(self) -> str:
        """A sentence on isotropy, which is higher where the mean cosine is lower; a difference needs an interval without 0."""
        by_path = {one.path: one for one in self.differences}
        total = by_path.get("mean_cosine")
        if total is None or total.low is None or total.high is None:
            return f"No interval says whether {self.second} is more isotropic than {self.first}."
        if not total.is_beyond_chance:
            return f"{self.second} and {self.first} do not differ in mean cosine beyond chance."
        is_lower = total.high < 0
        paths = {name: f"cosine.mean.{group}" for group, name in GROUPS.items()}
        changes = {name: by_path[path].value for name, path in paths.items() if path in by_path}
        verdict = f"{self.second} is {'more' if is_lower else 'less'} isotropic than {self.first}"
        if not changes:
            return verdict + "."
        most = (min if is_lower else max)(changes, key=changes.__getitem__)
        return f"{verdict}; {most} rows {'gain' if is_lower else 'lose'} most."

    @property
    def notes(self) -> list[str]:
        """A sentence for each group in which the difference in I(W) depends on the length of rows.

        The difference and that at unit RMS length then differ by more than MAX_DIFFERENCE, or have opposite signs although the
        first is beyond chance.
        """
        by_path, found = {one.path: one for one in self.differences}, []
        for group, name in GROUP_NAMES.items():
            raw, at_unit = by_path.get(f"{ISOTROPY}.{group}"), by_path.get(f"{UNIT_ISOTROPY}.{group}")
            if raw is None or at_unit is None:
                continue
            is_opposite = raw.is_beyond_chance and raw.value * at_unit.value < 0
            if is_opposite or abs(raw.value - at_unit.value) > MAX_DIFFERENCE:
                change = f"{raw.value:+.3g}, and {at_unit.value:+.3g} at unit RMS length"
                found.append(f"The difference in I(W) of {name} rows depends on their length: {change}.")
        return found


def compare(measurements: Sequence[Measurement]) -> list[ModelComparison]:
    """Compare each further model with the first. Embeddings of the same kind are compared, and tied with untied ones."""
    first = [one for one in measurements if one.model == measurements[0].model]
    pairs = [
        (next((one for one in first if one.embedding == other.embedding), first[-1]), other)
        for other in measurements
        if other.model != measurements[0].model
    ]
    return [ModelComparison(one.title, other.title, find_differences(one, other)) for one, other in pairs]


def find_differences(first: Measurement, second: Measurement) -> list[Difference]:
    """Return the differences of the common metrics with comparable signatures.

    Both models have the same bootstrapped texts and token types, so their differences are paired. Of hidden states only
    metrics with intervals are compared, layer by layer, and the last layer with the last.
    """
    others = {path: (number, signature) for path, number, signature in signed_numbers(second.metrics)}
    return [
        Difference(path, number, others[path][0], *_interval(first, second, path, others[path][0] - number))
        for path, number, signature in signed_numbers(first.metrics)
        if path in others and _keys(signature) == _keys(others[path][1]) and path.startswith(LAYERS) >= path.startswith(PREFIX)
    ]


def signed_numbers(metrics: Metrics) -> Iterator[tuple[str, float, str]]:
    """Yield path, number and signature of each number."""
    for path, (value, signature) in metrics.items():
        yield from ((name, number, signature) for name, number in flatten({path: value}))


def _keys(signature: str) -> list[str]:
    """Return the keys of a signature that say what is measured, without their values, which depend on the tokenizer.

    The arithmetic does not count, because float32 and float64 differ by less than any interval. Nor does how the numbers are
    stored, because the effect of quantisation is a question for a comparison.
    """
    return [key for part in signature.split("|") if (key := part.split(":")[0]) not in ("arithmetic", "dequantised")]


def _interval(first: Measurement, second: Measurement, path: str, value: float) -> tuple[float | None, float | None]:
    """Return the bounds of a difference whose value is known: the value plus the deviations of replicates from their median.

    Replicates of metrics such as I(W), a minimum over a maximum, are biased: they lie on one side of the value.
    """
    if path not in first.bootstrap or path not in second.bootstrap:
        return None, None
    values = second.bootstrap[path] - first.bootstrap[path]
    values = values[np.isfinite(values)]
    if not len(values):
        return None, None
    low, middle, high = np.quantile(values, (0.025, 0.5, 0.975))
    return float(value + low - middle), float(value + high - middle)


# Measurements and their differences as lines of text.


def metric_rows(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the path of each metric, with the number of each embedding as text, except for those by layer."""
    numbers: dict[str, list[str]] = {}
    for index, one in enumerate(measurements):
        for path, number, _ in signed_numbers(one.metrics):
            if not path.startswith(PREFIX):
                numbers.setdefault(path, [""] * len(measurements))[index] = to_text(number)
    return [{"path": path, "numbers": texts} for path, texts in numbers.items()]


def layer_rows(one: Measurement) -> list[list[str]]:
    """Return a row for each layer, its name and the numbers of LAYER_COLUMNS as text, or none if there are no hidden states."""
    columns = [one.metrics.get(f"{PREFIX}{name}", ({}, ""))[0] for name in LAYER_COLUMNS]
    layers = dict.fromkeys(layer for column in columns for layer in column)
    return [[layer, *(to_text(column.get(layer)) for column in columns)] for layer in layers]


def summary(one: Measurement) -> list[str]:
    """Return about ten lines on an embedding: its most important numbers by frequency group, and candidates."""
    found = {path: number for path, number, _ in signed_numbers(one.metrics)}
    lines = [f"{one.title}: {one.facts['rows']:,} rows x {one.facts['width']:,}, {one.facts['dtype']}"]
    lines.append(f"  {'':20}" + "".join(f"{name:>12}" for name in GROUP_NAMES.values()))
    for path, label in SUMMARY.items():
        total = found.get(path, found.get(f"{path}.total"))
        numbers = [total, *(found.get(f"{path}.{group}") for group in GROUPS)]
        if any(number is not None for number in numbers):
            lines.append(f"  {label:20}" + "".join(f"{to_text(number):>12}" for number in numbers).rstrip())
    if (number := found.get("undertrained.candidates")) is not None:
        tokens = [json.dumps(each["token"] or f"id {each['id']}", ensure_ascii=False) for each in one.candidates[:5]]
        such = f", first {', '.join(tokens)}" if tokens else ""
        lines.append(f"  under-trained rows: {number:,} candidates ({100 * found['undertrained.share']:.2g} %){such}")
    if cosines := one.metrics.get(f"{PREFIX}mean_cosine", ({}, ""))[0]:
        shown = dict.fromkeys((next(iter(cosines)), max(cosines, key=cosines.__getitem__), next(reversed(cosines))))
        numbers = ", ".join(f"{to_text(cosines[layer])} (layer {layer})" for layer in shown)
        lines.append(f"  hidden states: mean cosine {numbers}")
    return lines


def metric_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each metric, with the number of each embedding."""
    yield f"{'':32} " + "  ".join(f"{one.title:>14}" for one in measurements)
    for row in metric_rows(measurements):
        yield f"{row['path']:32} " + "  ".join(f"{number:>14}" for number in row["numbers"])
    for one in measurements:
        if rows := layer_rows(one):
            yield f"hidden states of {one.title}"
            yield from ("".join(f"{text:>14}" for text in row) for row in (["layer", *LAYER_COLUMNS.values()], *rows))


def difference_lines(comparisons: Sequence[ModelComparison]) -> Iterator[str]:
    """Yield the verdict on each comparison, and a line for each difference."""
    for one in comparisons:
        yield f"{one.second} minus {one.first}"
        yield from (one.verdict, *one.notes)
        for found in one.differences:
            yield f"  {found.path:32} {to_text(found.value):>12}  {interval_text(found)}".rstrip()


def to_text(value: str | float | None) -> str:
    """Return a number with four significant digits, an integer with all, `yes` or `no`, or a text as it is."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def interval_text(one: Difference) -> str:
    """Return the bounds of the interval, or an empty text if the difference has none."""
    return "" if one.low is None else f"[{to_text(one.low)}, {to_text(one.high)}]"
