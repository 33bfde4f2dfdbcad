"""Measurements and their differences as lines of text."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from raretokens.measure import model_comparison
from raretokens.measure.hidden_states import PREFIX
from raretokens.measure.measurement import Measurement
from raretokens.measure.model_comparison import Difference, ModelComparison

SUMMARY = {
    "isotropy": "I(W)", "isotropy_unit_rms": "I(W), unit length", "cosine.mean": "mean cosine",
    "norm_by_frequency": "mean length", "effective_rank": "effective rank", "iso_score": "IsoScore",
    "frequency_probe.accuracy": "frequency probe, %", "ppl": "perplexity", "uniq": "Uniq",
}  # fmt: skip
COLUMN_NAMES = {"total": "all", **model_comparison.GROUPS}
LAYER_COLUMNS = {
    "mean_cosine": "mean cosine", "centred_cosine": "minus mean", "iso_score": "IsoScore",
    "first_direction": "1st direction", "norm": "length", "first_norm": "1st position",
}  # fmt: skip


def metric_rows(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the path of each metric, with the number of each embedding as text, except for those by layer."""
    numbers: dict[str, list[str]] = {}
    for index, one in enumerate(measurements):
        for path, number, _ in model_comparison.signed_numbers(one.metrics):
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
    found = {path: number for path, number, _ in model_comparison.signed_numbers(one.metrics)}
    lines = [f"{one.title}: {one.facts['rows']:,} rows x {one.facts['width']:,}, {one.facts['dtype']}"]
    lines.append(f"  {'':20}" + "".join(f"{name:>12}" for name in COLUMN_NAMES.values()))
    for path, label in SUMMARY.items():
        total = found.get(path, found.get(f"{path}.total"))
        numbers = [total, *(found.get(f"{path}.{group}") for group in model_comparison.GROUPS)]
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
