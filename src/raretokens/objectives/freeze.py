"""Freeze keeps rare rows at their initial values, or scales parts of their gradient (AGG, sections 3.2 and 3.3).
`freeze_b`, `freeze_c` and `freeze_bc` switch off the gradient from targets that are not rare, from other rare targets, or both.

The rare group is the static one of the declared frequency groups. `rows` freezes whole rows, so input look-ups also see constant
rows (AGPS section 2.2). With `until`, rows are frozen through that training step and train normally afterwards (AGG figure 2).

The gradient that reaches a rare row through the softmax has three parts. Part (a) comes from positions whose target is that row's
type, part (b) from targets that are not rare, and part (c) from other rare targets. Options scale (b) and (c). Part (a) and the
gradient through the input embedding always act (table 2).
"""

from typing import Any

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.loss.terms import Gate

OPTIONS = {
    "until": (0, ">= 0"),  # last training step with frozen rows; 0: the whole run
    "rows": True,
    "b": (1.0, ">= 0"),  # factor of part (b)
    "c": (1.0, ">= 0"),  # factor of part (c)
}
VARIANTS = {
    "freeze": {},
    "freeze_b": {"rows": False, "b": 0.0},
    "freeze_c": {"rows": False, "c": 0.0},
    "freeze_bc": {"rows": False, "b": 0.0, "c": 0.0},
}


class Objective(objective.CountingObjective):
    def __init__(self, facts: objective.Facts, b: float, c: float, **options: Any) -> None:
        super().__init__(facts, **options)
        self.gates_parts = (b, c) != (1.0, 1.0)
        towards_nonrare, towards_rare = (torch.where(facts.rare, value, 1.0) for value in (b, c))
        self.register_buffer("rare", facts.rare.clone(), persistent=False)
        self.register_buffer("towards_nonrare", towards_nonrare, persistent=False)
        self.register_buffer("towards_rare", towards_rare, persistent=False)

    def gate(self) -> Gate | None:
        return Gate(self.rare, self.towards_nonrare, self.towards_rare) if self.gates_parts else None

    def frozen_rows(self) -> Tensor | None:
        is_thawed = self.until and self.number > self.until
        return self.rare if self.rows and not is_thawed else None
