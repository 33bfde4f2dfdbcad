"""Freeze (bc): rare rows do not receive parts (b) and (c) (AGG section 3.3, table 2)."""

from raretokens.training.objective import Facts
from raretokens.training.static_gating import StaticGating

OPTIONS: dict = {}


class Objective(StaticGating):
    def __init__(self, facts: Facts) -> None:
        super().__init__(facts, b=0.0, c=0.0)
