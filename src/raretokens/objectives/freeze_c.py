"""Freeze (c): rare rows do not receive part (c), the push from other rare targets (AGG section 3.3, table 2)."""

from raretokens.training.objective import Facts
from raretokens.training.static_gating import StaticGating

OPTIONS: dict = {}


class Objective(StaticGating):
    def __init__(self, facts: Facts) -> None:
        super().__init__(facts, b=1.0, c=0.0)
