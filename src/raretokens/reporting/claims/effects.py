"""Effects of claims, here and in print."""

import math
from pathlib import Path

from raretokens.reporting.declarations.claim import Claim
from raretokens.reporting.declarations.printed import PrintedTable
from raretokens.reporting.scored import Value


def effect(claim: Claim, left: float, right: float) -> float:
    if claim.effect == "difference":
        return left - right
    if right == 0:  # nothing over nothing is no effect
        return math.copysign(math.inf, left) if left else 1.0
    return left / right


def turning_point(claim: Claim, right: float) -> float:
    """What the left number would be where the claim turns."""
    return right * claim.threshold if claim.effect == "ratio" else right + claim.threshold


def effects(claim: Claim, values: list[Value | None]) -> list[float]:
    """Effect for each seed that both sides have; without a common seed, that of the means; none where a side is absent."""
    sides = [value for value in values if value]
    if len(sides) < len(values):
        return []
    if len(sides) == 1:
        return list(sides[0].values)
    left, right = sides
    return [effect(claim, a, b) for a, b in _pairs(left, right) or [(left.mean, right.mean)]]


def _pairs(left: Value, right: Value) -> list[tuple[float, float]]:
    """What needs no model has no seed: every seed of the other side is compared with it."""
    return [
        (a, b)
        for a, seed in zip(left.values, left.seeds, strict=True)
        for b, other in zip(right.values, right.seeds, strict=True)
        if seed == other or None in (seed, other)
    ]


def printed_effect(claim: Claim, folder: Path) -> float | None:
    """None where the paper prints none."""
    if claim.unprinted:
        return None
    sides = [side.printed for side in claim.sides.values() if side.printed]
    numbers = [PrintedTable(folder, file).mean(row, column, group) for file, row, column, group in sides]
    if None in numbers:
        return None
    return numbers[0] if claim.effect == "value" else effect(claim, *numbers)
