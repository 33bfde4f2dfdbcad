"""Freeze: rare rows keep their initial values, or parts of their gradient are switched off (AGG sections 3.2 and 3.3).

The rare group is the static one of the declared frequency groups. `rows` freezes its rows whole (AGPS section 2.2): look-ups
see the constant rows too. With `until`, the rows are frozen through that update and train normally afterwards (AGG figure 2).

Of the gradient that reaches a rare row through the softmax, part (a) comes from positions whose target it is, part (b) from
targets that are not rare, and part (c) from other rare targets. Part (a) and the input side always act (table 2).
"""

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.terms import Gate

OPTIONS = {
    "until": (0, ">= 0"),  # of frozen rows; 0: for the whole run
    "rows": True,
    "b": (1.0, ">= 0"),  # what part (b) is multiplied by
    "c": (1.0, ">= 0"),  # what part (c) is multiplied by
}
VARIANTS = {
    "freeze": {},
    "freeze_b": {"rows": False, "b": 0.0},
    "freeze_c": {"rows": False, "c": 0.0},
    "freeze_bc": {"rows": False, "b": 0.0, "c": 0.0},
}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, until: int, rows: bool, b: float, c: float) -> None:
        super().__init__(facts)
        self.until, self.rows, self.gates_parts = until, rows, (b, c) != (1.0, 1.0)
        towards_nonrare, towards_rare = (torch.where(facts.rare, value, 1.0) for value in (b, c))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rare", facts.rare.clone(), persistent=False)
        self.register_buffer("towards_nonrare", towards_nonrare, persistent=False)
        self.register_buffer("towards_rare", towards_rare, persistent=False)

    def begin_update(self, counts: Tensor) -> None:
        self.updates += 1

    def gate(self) -> Gate | None:
        return Gate(self.rare, self.towards_nonrare, self.towards_rare) if self.gates_parts else None

    def frozen_rows(self) -> Tensor | None:
        is_thawed = self.until and self.updates > self.until
        return self.rare if self.rows and not is_thawed else None
