"""Notes where I(W) depends on the length of the rows: where I(W) at unit RMS length says something else."""

from raretokens.metrics.score_files import Metrics

RAW, UNIT = "isotropy", "isotropy_unit_rms"
MAX_DIFFERENCE = 0.1  # largest difference between both versions of I(W) without a note
MIDDLE = 0.5  # of the range of I(W); there is also a note where both versions lie on different sides
NAMES = {"total": "all", "freq": "frequent", "med": "medium", "rare": "rare"}


def length_note(metrics: Metrics) -> str | None:
    """Return a note with the groups whose I(W) depends on the length of their rows, and the numbers of the first group."""
    raw, at_unit, lengths = (metrics[name][0] if name in metrics else {} for name in (RAW, UNIT, "norm_rms"))
    found = [group for group in NAMES if group in raw and group in at_unit and _depends(raw[group], at_unit[group])]
    if not found:
        return None
    first = found[0]
    return (
        f"I(W) of {', '.join(NAMES[group] for group in found)} rows depends on their length: for {NAMES[first]} rows it is "
        f"{raw[first]:.3g} at their RMS length of {lengths[first]:.3g}, and {at_unit[first]:.3g} at unit RMS length"
    )


def _depends(raw: float, at_unit: float) -> bool:
    return abs(raw - at_unit) > MAX_DIFFERENCE or (raw < MIDDLE) != (at_unit < MIDDLE)
