"""One file an objective, found by its name: OPTIONS (name -> default) and a class Objective."""

from importlib import import_module

from raretokens.config import UserError
from raretokens.training.objective import Facts, Objective


def build(name: str, facts: Facts, **options: object) -> Objective:
    """The objective of that name; options not given take their defaults."""
    module = import_module(f"raretokens.objectives.{name}")
    try:
        return module.Objective(facts, **{**module.OPTIONS, **options})
    except (TypeError, ValueError) as error:
        raise UserError(f"objective {name}: {error}") from None
