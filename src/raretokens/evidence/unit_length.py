"""Whether I(W) at unit RMS row length agrees with a verdict on I(W), which depends on the length of the rows."""

from enum import StrEnum

from raretokens.evidence.comparison import Comparison, Direction

RAW, UNIT = "isotropy.", "isotropy_unit_rms."  # beginnings of the paths of both metrics


class UnitLength(StrEnum):
    """The side of a threshold on which I(W) at unit RMS length lies, compared with that of I(W)."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"  # the interval of one of them contains the threshold, or has no known width
    NOT_RECORDED = "not recorded"


def at_unit_length(comparison: Comparison, margins: tuple[float, float]) -> UnitLength | None:
    """Compare the same runs by I(W) at unit RMS length, or return None for a comparison of other metrics.

    margins: lowest and highest effect that count as no change.
    """
    sides = comparison.all_sides
    if not any(side.metric.startswith(RAW) for side in sides.values()):
        return None
    replaced = {
        name: side.replaced(metric=side.metric.replace(RAW, UNIT, 1) if side.metric.startswith(RAW) else side.metric)
        for name, side in sides.items()
    }
    at_unit = Comparison(comparison.kind, replaced, comparison.scores)
    if not at_unit.seed_effects:
        return UnitLength.NOT_RECORDED
    raw, unit = (_direction(one, margins) for one in (comparison, at_unit))
    if raw is None or unit is None:
        return UnitLength.UNDECIDED
    return UnitLength.AGREES if raw == unit else UnitLength.DISAGREES


def _direction(comparison: Comparison, margins: tuple[float, float]) -> Direction | None:
    if comparison.lacks_variance or not comparison.is_finite:
        return None
    return comparison.direction(*margins)
