"""An objective by its name."""

from importlib import import_module

from raretokens.errors import UserError, nearest
from raretokens.loss.facts import Facts
from raretokens.loss.objective import Objective
from raretokens.objectives.registry import declared


def build(name: str, facts: Facts, **options: object) -> Objective:
    """The objective of that name; options not given take their defaults.

    Raises UserError where there is no objective or option of that name, or a value is none that the objective takes.
    """
    known = declared(name)
    for option in options:
        if option not in known.options:
            raise UserError(f"objective {name}: no option {option!r}; {nearest(option, known.options)}")
    module = import_module(f"raretokens.objectives.{known.module}")
    try:
        return module.Objective(facts, **{**known.options, **options})
    except ValueError as error:
        raise UserError(f"objective {name}: {error}") from None
