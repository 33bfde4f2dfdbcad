"""Top-level literals of Python files, read without running the files, and the options that OPTIONS declares.

    OPTIONS = {"alpha": (0.03, ">= 0"), "popular": (0.2, "> 0", "< 1"), "variant": ("eq15", "alg1"), "g1": True}

An option has a default and bounds. Its type is the type of the default; a float option also accepts integers. Every number must
be finite. After a string default, the tuple lists the other allowed strings. A default without a tuple has no bounds.
"""

import ast
import math
from functools import cache
from numbers import Integral, Real
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, NamedTuple

COMPARED = {">=": ge, ">": gt, "<=": le, "<": lt}
LARGEST = 10**12  # largest integer that an option accepts; a larger one is a typo and could overflow


class Option(NamedTuple):
    """An option of an objective or rule: its default and its bounds, or its other allowed strings."""

    default: Any
    bounds: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Description of the allowed values for error messages, such as `a number >= 0`."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return " or ".join((self.default, *self.bounds))
        kind = "a number" if isinstance(self.default, float) else "a whole number"
        return f"{kind} {' and '.join(self.bounds)}".strip()

    def accepts(self, value: Any) -> bool:
        """Return whether the value is allowed."""
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
    """Convert a value of OPTIONS, a default or a tuple of default and bounds, to an Option."""
    return Option(declared[0], declared[1:]) if isinstance(declared, tuple) else Option(declared)


def literal(file: Path, name: str) -> Any:
    """Return the literal that the file assigns to `name` at its top level, or None if there is no such assignment."""
    return _literals(file).get(name)


def literals(folder: Path, name: str) -> dict[str, Any]:
    """Return file stem -> literal `name`, for the files of a folder that assign one, in alphabetical order."""
    found = {file.stem: literal(file, name) for file in sorted(folder.glob("*.py"))}
    return {stem: value for stem, value in found.items() if value is not None}


@cache
def _literals(file: Path) -> dict[str, Any]:
    values = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and getattr(node, "value", None) is not None:
                try:
                    values[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
    return values
