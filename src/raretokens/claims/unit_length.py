"""Whether I(W) at unit RMS row length agrees with a verdict on I(W), which depends on the length of the rows."""

from enum import StrEnum

from raretokens.claims.comparison import Comparison, Direction

RAW, UNIT = "isotropy.", "isotropy_unit_rms."  # beginnings of the paths of both metrics


class UnitLength(StrEnum):
    """The side of a threshold on which I(W) at unit RMS length lies, compared with that of I(W)."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    INCONCLUSIVE = "inconclusive"  # the interval of one of them contains the threshold, or has no known width
    NOT_RECORDED = "not recorded"


def at_unit_length(comparison: Comparison, margins: tuple[float, float]) -> UnitLength:
    """Compare the same runs by I(W) at unit RMS length.

    Args:
        comparison: of a metric that begins with RAW.
        margins: lowest and highest effect that count as no change.
    """
    replaced = {
        name: side.replaced(metric=UNIT + side.metric.removeprefix(RAW)) if side.metric.startswith(RAW) else side
        for name, side in comparison.all_sides.items()
    }
    at_unit = Comparison(comparison.kind, replaced, comparison.scores)
    if not at_unit.seed_effects:
        return UnitLength.NOT_RECORDED
    raw, unit = (_direction(one, margins) for one in (comparison, at_unit))
    if raw is None or unit is None:
        return UnitLength.INCONCLUSIVE
    return UnitLength.AGREES if raw == unit else UnitLength.DISAGREES


def _direction(comparison: Comparison, margins: tuple[float, float]) -> Direction | None:
    if comparison.lacks_variance or not comparison.is_finite:
        return None
    return comparison.direction(*margins)
