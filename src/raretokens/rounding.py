"""Numbers as they are written: the digits below depend on the machine."""

DIGITS = 6  # significant


def rounded(value: float, digits: int = DIGITS) -> float:
    """The value with so many significant digits; minus zero becomes zero."""
    return float(f"{value:.{digits}g}") + 0.0
