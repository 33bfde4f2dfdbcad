"""Differences between measured models, with paired intervals for the geometry and metrics of a text, and a verdict in words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from raretokens.measure.hidden_states import PREFIX
from raretokens.measure.measurement import Measurement
from raretokens.measure.notes import GROUP_NAMES, ISOTROPY, MAX_DIFFERENCE, UNIT_ISOTROPY
from raretokens.metrics.score_files import Metrics, flatten

LAYERS = f"{PREFIX}mean_cosine."
GROUPS = {"freq": "frequent", "med": "medium", "rare": "rare"}


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

    Both models have the same bootstrapped texts and token types, so their differences are paired. Of hidden states only the
    mean cosine is compared, layer by layer, and the last layer with the last.
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
