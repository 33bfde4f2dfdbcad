"""The effect between two numbers, and the rows that say how much seeds move it.

Effects are averaged on an additive scale, which is the logarithm for a ratio and the identity for a difference or a value.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import fdtrc

from raretokens.claims.expectation import EffectKind

FEWEST_ROWS = 2  # of a family, with several seeds each; fewer cannot tell how alike variances are
FEWEST_FREEDOM = 2  # degrees of freedom of these rows together


def effect(kind: EffectKind, left: Any, right: Any = None) -> Any:
    """Return left / right, left - right, or left alone, of numbers or arrays. 0 / 0 is 1, no effect."""
    if right is None:
        return left
    if kind == "difference":
        return left - right
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((left == 0) & (right == 0), 1.0, np.divide(left, right))[()]


def combined_effect(kind: EffectKind, numbers: list[Any]) -> Any:
    """Return the effect of a number (or an array) for each side, combined with the effect of the control if there is one.

    Args:
        kind: ratio, difference or value.
        numbers: left and right (a value has left alone), then the sides of the control in the same order.
    """
    sides = 1 if kind == "value" else 2
    own, *control = (effect(kind, *numbers[start : start + sides]) for start in range(0, len(numbers), sides))
    return effect("ratio" if kind == "ratio" else "difference", own, control[0]) if control else own


def to_additive(kind: EffectKind, effects: Any) -> Any:
    """Transform effects to the additive scale: the logarithm of a ratio, other effects unchanged."""
    return np.log(effects) if kind == "ratio" else np.asarray(effects)


def from_additive(kind: EffectKind, effects: Any) -> Any:
    """Transform effects back from the additive scale."""
    return np.exp(effects) if kind == "ratio" else np.asarray(effects)


@dataclass(frozen=True)
class Family:
    """Rows of the same model, text and metric: row -> seed -> number, on the additive scale.

    Where seeds move all rows alike, the common part of a seed cancels from a difference of two rows.
    """

    rows: dict[str, dict[int, float]]

    @cached_property
    def several(self) -> dict[str, dict[int, float]]:
        return {name: row for name, row in self.rows.items() if len(row) > 1}

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that most rows with several seeds have."""
        sets = Counter(tuple(sorted(row)) for row in self.several.values())
        return max(sets, key=lambda one: (sets[one], len(one)), default=())

    @cached_property
    def balanced(self) -> np.ndarray:
        """The rows that have exactly these seeds; shape (rows, seeds)."""
        rows = [row for row in self.several.values() if tuple(sorted(row)) == self.seeds]
        return np.array([[row[seed] for seed in self.seeds] for row in rows]).reshape(len(rows), len(self.seeds))

    @cached_property
    def p_of_seeds(self) -> float:
        """p of the F test of a two-way layout that a seed moves all rows alike; 1 with fewer than FEWEST_ROWS rows."""
        rows, seeds = self.balanced.shape
        if rows < FEWEST_ROWS:
            return 1.0
        rest = self.balanced - self.balanced.mean(1, keepdims=True)
        common = rest.mean(0)
        between, within = rows * np.sum(common**2), np.sum((rest - common) ** 2) / (rows - 1)
        return float(fdtrc(seeds - 1, (rows - 1) * (seeds - 1), between / within)) if within > 0 else 1.0

    @property
    def can_pool(self) -> bool:
        """Whether the rows have enough seeds for a variance that a row with one seed can take, if seeds do not move all alike."""
        return len(self.variances(is_paired=False)) >= FEWEST_ROWS

    def variances(self, is_paired: bool) -> dict[str, tuple[float, float]]:
        """Return row -> its variance between seeds and the degrees of freedom, for the rows with several seeds.

        With `is_paired` the mean of a seed over rows is subtracted first. It takes a share of the degrees of freedom. Nothing
        is returned if less than FEWEST_FREEDOM is left in all: the variances of two rows with two seeds are then one number.
        """
        common, share = dict.fromkeys({seed for row in self.several.values() for seed in row}, 0.0), 1.0
        if is_paired:
            rest = self.balanced - self.balanced.mean(1, keepdims=True)
            common, share = dict(zip(self.seeds, rest.mean(0), strict=True)), 1 - 1 / len(rest)
        found = {}
        for name, row in self.several.items():
            numbers = np.array([number - common[seed] for seed, number in row.items() if seed in common])
            freedom = (len(numbers) - 1) * (share if tuple(sorted(row)) == self.seeds else 1.0)
            if freedom > 0:
                found[name] = float(np.sum((numbers - numbers.mean()) ** 2)) / freedom, freedom
        return found if sum(freedom for _, freedom in found.values()) >= FEWEST_FREEDOM else {}
