"""The difference of two measured models, with intervals where the metric was drawn again on texts."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from raretokens.tools.measure.measurement import Measured


class Difference(NamedTuple):
    path: str
    first: float
    second: float
    low: float | None  # bounds of the 95 % interval of second - first
    high: float | None

    @property
    def value(self) -> float:
        return self.second - self.first


def flat(metrics: dict[str, tuple[Any, str]]) -> Iterator[tuple[str, float, str]]:
    """Path, number and signature."""
    for path, (value, how) in metrics.items():
        yield from ((name, number, how) for name, number in _flat(path, value))


def _flat(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(f"{path}.{name}", item)
    elif value is not None:
        yield path, value


def differences(first: Measured, second: Measured) -> list[Difference]:
    """Of the metrics that both have, measured alike; the drawn texts are the same for both, so draws go in pairs."""
    others = {path: (number, how) for path, number, how in flat(second.metrics)}
    found = []
    for path, number, how in flat(first.metrics):
        if path in others and _alike(how, others[path][1]):
            found.append(Difference(path, number, others[path][0], *_interval(first, second, path)))
    return found


def _alike(one: str, other: str) -> bool:
    """Apart from what a signature counts, which differs with the tokenizer."""
    return [part.split(":")[0] for part in one.split("|")] == [part.split(":")[0] for part in other.split("|")]


def _interval(first: Measured, second: Measured, path: str) -> tuple[float | None, float | None]:
    if path not in first.drawn or path not in second.drawn:
        return None, None
    drawn = second.drawn[path] - first.drawn[path]
    drawn = drawn[np.isfinite(drawn)]
    return tuple(map(float, np.quantile(drawn, (0.025, 0.975)))) if len(drawn) else (None, None)
