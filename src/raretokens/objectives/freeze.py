"""Freeze: the rows of the rare group keep their initial values (AGG section 3.2, AGPS section 2.2).

The rare group is the static one of the declared frequency groups. Input look-ups see the constant rows too. With `until`, the
rows are frozen through that update and train normally afterwards (AGG figure 2).
"""

import torch
from torch import Tensor

from raretokens.training import objective

OPTIONS = {"until": 0}  # 0: for the whole run


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, until: int) -> None:
        super().__init__(facts)
        self.until = until
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def begin_update(self, counts: Tensor) -> None:
        self.updates += 1

    def frozen_rows(self) -> Tensor | None:
        return None if self.until and self.updates > self.until else self.facts.rare.to(self.updates.device)
