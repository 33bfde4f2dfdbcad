"""Construction of an objective from its name and options."""

from importlib import import_module

from raretokens.errors import UserError, nearest
from raretokens.loss.facts import Facts
from raretokens.loss.objective import Objective
from raretokens.objectives.registry import declared


def build(name: str, facts: Facts, **options: object) -> Objective:
    """Return the objective of that name; missing options take their defaults.

    `raretokens.objectives()` lists names and options.

    Raises:
        UserError: if the objective or an option is unknown, or a value is not allowed.
    """
    known = declared(name)
    for option, value in options.items():
        if option not in known.options:
            raise UserError(f"objective {name}: no option {option!r}; {nearest(option, known.options)}")
        if not known.options[option].accepts(value):
            allowed = known.options[option].allowed
            raise UserError(f"objective {name}: {option}: {value!r} is not allowed: should be {allowed}")
    module = import_module(f"raretokens.objectives.{known.module}")
    try:
        return module.Objective(facts, **{**known.defaults, **options})
    except ValueError as error:
        raise UserError(f"objective {name}: {error}") from None
