"""Registry of objectives, read from the source files without importing them, because an import would load torch.

A file declares OPTIONS (literals.py). The objective has the name of its file. A file that declares VARIANTS defines a family
instead: VARIANTS maps each name to the option values that define it.
"""

from pathlib import Path
from typing import Any, NamedTuple

from raretokens.errors import UserError, nearest
from raretokens.literals import Option, literal, option

FOLDER = Path(__file__).parent


class Declared(NamedTuple):
    """Module and options of an objective."""

    module: str  # file stem in this folder
    options: dict[str, Option]

    @property
    def defaults(self) -> dict[str, Any]:
        return {name: one.default for name, one in self.options.items()}


def known() -> dict[str, Declared]:
    """Return all objectives by name, in alphabetical order."""
    objectives = {}
    for path in FOLDER.glob("*.py"):
        options = literal(path, "OPTIONS")
        for name, own in (literal(path, "VARIANTS") or {path.stem: {}}).items() if options is not None else ():
            known = {key: option(value) for key, value in options.items()}
            known |= {key: known[key]._replace(default=value) for key, value in own.items()}
            objectives[name] = Declared(path.stem, known)
    return dict(sorted(objectives.items()))


def declared(name: str) -> Declared:
    """Return the objective of that name. Raises UserError, with the nearest known name, if there is none."""
    objectives = known()
    if name not in objectives:
        raise UserError(f"objective {name!r} has no file; {nearest(name, objectives)}")
    return objectives[name]
