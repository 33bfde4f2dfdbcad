"""Where a target piece finds its source piece: near the diagonal, the more so the higher the tension (Dyer et al., 2013).

Target position j of m (from 1) comes from source position i of n with probability (1 - P0) exp(tension h) / Z, where
h = -|i / n - j / m| and Z sums over i; with P0 from no source piece. Sums over i are geometric series on both sides of
the diagonal. The steps are those of fast_align and sil-thot, their slips too (`_slope`), so that links come out equal.
"""

import numpy as np

from raretokens.alignment import c_library
from raretokens.alignment.sizes import Sizes

P0 = 0.08  # of a target piece that no source piece explains
START = 4.0  # tension
LOWEST, HIGHEST = 0.1, 14.0
STEPS, RATE = 8, 20.0  # of gradient ascent after an iteration, but for the first


def normalisers(sizes: Sizes, tension: float) -> np.ndarray:
    """Z / (1 - P0) of each target position of each size, float64."""
    parts = [_sum(*part, tension) / (1.0 - P0) for part, _ in sizes.parts()]
    return np.concatenate(parts) if parts else np.zeros(0)


def tuned(sizes: Sizes, tension: float, observed: float) -> float:
    """The tension after some steps of gradient ascent. observed: mean h of the links that a text has under the model."""
    for _ in range(STEPS):
        total = 0.0
        for part, count in sizes.parts():
            total = in_turn(count * _slope(*part, tension), total)
        tension += (observed - total / sizes.tokens) * RATE
        tension = HIGHEST if tension > HIGHEST else LOWEST if tension <= LOWEST else tension
    return tension


def in_turn(values: np.ndarray, start: float) -> float:
    """start + the sum, added one after the other as a loop does; NumPy's own adds halves, which moves the last bits."""
    return float(np.add.accumulate(np.concatenate(([start], values)))[-1])


def _sum(j: np.ndarray, m: np.ndarray, n: np.ndarray, tension: float) -> np.ndarray:
    """Z: the sum over i of exp(tension h)."""
    ratio, total = c_library.exp(-tension / n), np.zeros_like(j)
    for h, terms in _sides(j, m, n):
        part = c_library.exp(h * tension) * (1.0 - c_library.power(ratio, terms)) / (1.0 - ratio)
        total = np.where(terms > 0, total + part, total)
    return total


def _slope(j: np.ndarray, m: np.ndarray, n: np.ndarray, tension: float) -> np.ndarray:
    """d log Z / d tension, the mean h where only the diagonal counts; fast_align takes Z with n and m changed about."""
    ratio, total = c_library.exp(-tension / n), np.zeros_like(j)
    for h, terms in _sides(j, m, n):
        first = c_library.exp(h * tension)
        part = _arithmetic_geometric(h, first, ratio, -1.0 / n, terms, first * c_library.power(ratio, terms))
        total = np.where(terms > 0, total + part, total)
    return total / _sum(j, n, m, tension)


def _sides(j: np.ndarray, m: np.ndarray, n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """h next to the diagonal and the number of source positions from there on: below it, above it."""
    below = np.floor(j * n / m)
    above = n - below
    above = np.where(above < 0, above + 2.0**32, above)  # lengths changed about: the library's unsigned number wraps
    return [(-np.abs(i / n - j / m), terms) for i, terms in ((below, below), (below + 1, above))]


def _arithmetic_geometric(a, g, ratio, step, terms, end) -> np.ndarray:  # noqa: ANN001
    """Sum of (a + k step) g ratio^k over k < terms; end: g ratio^terms."""
    less = ratio - 1
    return ((step * (terms - 1) + a) * end - a * g) / less - step * (end - g * ratio) / (less * less)
