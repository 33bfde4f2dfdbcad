"""Registry of objectives, read from the source files without importing them, because an import would load torch.

A file declares OPTIONS (literals.py). The objective has the name of its file. A file that declares VARIANTS defines a family
instead: VARIANTS maps each name to the option values that define it.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from raretokens.errors import UserError, nearest
from raretokens.literals import Option, literal, literals, option

if TYPE_CHECKING:
    from raretokens.loss.facts import Facts
    from raretokens.loss.objective import Objective

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
    for module, declared in literals(FOLDER, "OPTIONS").items():
        options = {key: option(value) for key, value in declared.items()}
        for name, own in (literal(FOLDER / f"{module}.py", "VARIANTS") or {module: {}}).items():
            changed = {key: options[key]._replace(default=value) for key, value in own.items()}
            objectives[name] = Declared(module, options | changed)
    return dict(sorted(objectives.items()))


def declared(name: str) -> Declared:
    """Return the objective of that name. Raises UserError, with the nearest known name, if there is none."""
    objectives = known()
    if name not in objectives:
        raise UserError(f"objective {name!r} has no file; {nearest(name, objectives)}")
    return objectives[name]


def build(name: str, facts: "Facts", **options: object) -> "Objective":
    """Return the objective of that name; missing options take their defaults.

    `raretokens.objectives()` lists names and options.

    Raises:
        UserError: if the objective or an option is unknown, or a value is not allowed.
    """
    chosen = declared(name)
    for key, value in options.items():
        if key not in chosen.options:
            raise UserError(f"objective {name}: no option {key!r}; {nearest(key, chosen.options)}")
        if not chosen.options[key].accepts(value):
            allowed = chosen.options[key].allowed
            raise UserError(f"objective {name}: {key}: {value!r} is not allowed: should be {allowed}")
    module = import_module(f"raretokens.objectives.{chosen.module}")
    try:
        return module.Objective(facts, **{**chosen.defaults, **options})
    except (ValueError, KeyError) as error:
        raise UserError(f"objective {name}: {error}") from None


class Choice(NamedTuple):
    """Summary and options of an objective."""

    summary: str  # first paragraph of the module docstring
    defaults: dict[str, Any]
    allowed: dict[str, str]  # option -> allowed values in words


class Choices(dict[str, Choice]):
    """Dictionary from name to objective, with a readable list as its repr."""

    def __repr__(self) -> str:
        lines = []
        for name, choice in self.items():
            lines.append(f"{name}: {choice.summary}")
            lines += [f"    {key}={choice.defaults[key]!r}  ({allowed})" for key, allowed in choice.allowed.items()]
        return "\n".join(lines)


def objectives() -> Choices:
    """Return all objectives that `build` accepts, by name, with their summaries, options, defaults and allowed values."""
    return Choices(
        (name, Choice(_summary(one.module), one.defaults, {key: option.allowed for key, option in one.options.items()}))
        for name, one in known().items()
    )


def _summary(module: str) -> str:
    text = ast.get_docstring(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())
