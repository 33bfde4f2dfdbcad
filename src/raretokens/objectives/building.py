"""An objective by its name."""

from importlib import import_module

from raretokens.errors import UserError
from raretokens.loss.objective import Facts, Objective
from raretokens.objectives.registry import declared


def build(name: str, facts: Facts, **options: object) -> Objective:
    """The objective of that name; options not given take their defaults."""
    known = declared(name)
    module = import_module(f"raretokens.objectives.{known.module}")
    try:
        return module.Objective(facts, **{**known.options, **options})
    except (TypeError, ValueError) as error:
        raise UserError(f"objective {name}: {error}") from None
