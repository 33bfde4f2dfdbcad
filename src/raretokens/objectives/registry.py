"""Which objectives there are, read from their files without importing them: importing would load torch.

A file declares OPTIONS (literals.py). Its own name is that of an objective, unless it declares VARIANTS: names of a family, each
with the options that make it so.
"""

from pathlib import Path
from typing import Any, NamedTuple

from raretokens.errors import UserError, nearest
from raretokens.literals import Option, literal, option

FOLDER = Path(__file__).parent


class Declared(NamedTuple):
    """An objective by its name."""

    module: str  # of this folder
    options: dict[str, Option]

    @property
    def defaults(self) -> dict[str, Any]:
        return {name: one.default for name, one in self.options.items()}


def known() -> dict[str, Declared]:
    """Name -> objective, in the order of the alphabet."""
    objectives = {}
    for path in FOLDER.glob("*.py"):
        options = literal(path, "OPTIONS")
        for name, own in (literal(path, "VARIANTS") or {path.stem: {}}).items() if options is not None else ():
            known = {key: option(value) for key, value in options.items()}
            known |= {key: known[key]._replace(default=value) for key, value in own.items()}
            objectives[name] = Declared(path.stem, known)
    return dict(sorted(objectives.items()))


def declared(name: str) -> Declared:
    """The objective of that name; UserError names the nearest."""
    objectives = known()
    if name not in objectives:
        raise UserError(f"objective {name!r} has no file; {nearest(name, objectives)}")
    return objectives[name]
