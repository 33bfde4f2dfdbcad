"""Numbers with the digits that mean something: 32832.40 ± 4271.00 is 33,000 ± 4,000."""

import math
import re

DIGITS = 4  # of a number whose spread is not known
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def significant(value: str, spread: str = "") -> tuple[str, str]:
    """Both as readers need them; a text that is no number, and a count, which is exact, stay as they are.

    A spread has its first digit, and the second one if the first is 1; the value ends where it does.
    """
    if not NUMBER.fullmatch(value) or not (spread or "." in value):
        return value, spread
    given = len(value.partition(".")[2])
    known = float(spread) if spread else 0.0
    if known:
        exponent = math.floor(math.log10(known))
        places = -exponent + (known / 10**exponent < 2)
    else:
        places = DIGITS - 1 - math.floor(math.log10(abs(float(value)) or 1.0))
    places = min(places, given)
    return _rounded(value, places), spread and _rounded(spread, places)


def _rounded(number: str, places: int) -> str:
    value = round(float(number), places)
    return f"{value:,.{max(places, 0)}f}"
