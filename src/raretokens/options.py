"""What an option may be, as the file of an objective (or of another part) declares it: a default, and what is allowed beside it.

    OPTIONS = {"alpha": (0.03, ">= 0"), "popular": (0.2, "> 0", "< 1"), "variant": ("eq15", "alg1"), "g1": True}

The type is that of the default (a whole number serves as a real one) and every number is finite. The words beside a word are the
others that are allowed. A default alone has no bounds.
"""

import math
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

COMPARED = {">=": ge, ">": gt, "<=": le, "<": lt}
LARGEST = 10**12  # of whole numbers: more is a slip, and in the end overflows


class Option(NamedTuple):
    """One that is declared."""

    default: Any
    bounds: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """In words."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return " or ".join((self.default, *self.bounds))
        kind = "a number" if isinstance(self.default, float) else "a whole number"
        return f"{kind} {' and '.join(self.bounds)}".strip()

    def accepts(self, value: Any) -> bool:
        """Whether it may have that value."""
        if isinstance(self.default, bool) or isinstance(value, bool):
            return isinstance(self.default, bool) and isinstance(value, bool)
        if isinstance(self.default, str):
            return value in (self.default, *self.bounds)
        if isinstance(self.default, float):
            return isinstance(value, Real) and math.isfinite(value) and self._is_within(value)
        return isinstance(value, Integral) and abs(value) <= LARGEST and self._is_within(value)

    def _is_within(self, value: Any) -> bool:
        bounds = (bound.split() for bound in self.bounds)
        return all(COMPARED[sign](value, float(limit)) for sign, limit in bounds)


def option(declared: Any) -> Option:
    """Of what stands in OPTIONS."""
    return Option(declared[0], declared[1:]) if isinstance(declared, tuple) else Option(declared)
