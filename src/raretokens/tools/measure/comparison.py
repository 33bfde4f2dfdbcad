"""Differences between measured models, with intervals for metrics of a text."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from raretokens.evaluation.score_files import Metrics, flatten
from raretokens.tools.measure.measurement import Measurement


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


class Comparison(NamedTuple):
    """Two embeddings with the differences of their metrics."""

    first: str  # titles of measurements
    second: str
    differences: list[Difference]


def compare(measurements: Sequence[Measurement]) -> list[Comparison]:
    """Compare each further model with the first. Embeddings of the same kind are compared, and tied with untied ones."""
    first = [one for one in measurements if one.model == measurements[0].model]
    pairs = [
        (next((one for one in first if one.embedding == other.embedding), first[-1]), other)
        for other in measurements
        if other.model != measurements[0].model
    ]
    return [Comparison(one.title, other.title, find_differences(one, other)) for one, other in pairs]


def find_differences(first: Measurement, second: Measurement) -> list[Difference]:
    """Return the differences of the common metrics with comparable signatures.

    Both models have the same bootstrapped texts, so their differences are paired.
    """
    others = {path: (number, signature) for path, number, signature in signed_numbers(second.metrics)}
    return [
        Difference(path, number, others[path][0], *_interval(first, second, path))
        for path, number, signature in signed_numbers(first.metrics)
        if path in others and _keys(signature) == _keys(others[path][1])
    ]


def signed_numbers(metrics: Metrics) -> Iterator[tuple[str, float, str]]:
    """Yield path, number and signature of each number."""
    for path, (value, signature) in metrics.items():
        yield from ((name, number, signature) for name, number in flatten({path: value}))


def _keys(signature: str) -> list[str]:
    """Return the keys of a signature, without its values, which depend on the tokenizer."""
    return [part.split(":")[0] for part in signature.split("|")]


def _interval(first: Measurement, second: Measurement, path: str) -> tuple[float | None, float | None]:
    if path not in first.bootstrap or path not in second.bootstrap:
        return None, None
    values = second.bootstrap[path] - first.bootstrap[path]
    values = values[np.isfinite(values)]
    return tuple(map(float, np.quantile(values, (0.025, 0.975)))) if len(values) else (None, None)
