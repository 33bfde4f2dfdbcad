"""Numbers as the papers write them: `32k` is rounded, `6-6` are the layers of an encoder and a decoder."""

import re
from typing import Any

FORM = re.compile(r"(?P<number>[\d.]+(?:e-?\d+)?)(?P<unit>[kM]?)(?:\s*-\s*(?P<again>\d+))?")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}
ROUNDED = 0.03  # what a number printed with k or M may be off: 32k stands for 32,768


def is_same(text: str, value: Any, within: float) -> bool:
    """Whether a value is the printed one; within: of numbers without a unit."""
    number = FORM.fullmatch(text)
    if not number or isinstance(value, str):
        return text == str(value)
    if number["again"] and number["again"] != number["number"]:
        return False
    printed = float(number["number"]) * UNITS[number["unit"]]
    return abs(printed - value) <= max(within, ROUNDED * printed if number["unit"] else 1e-9)
