"""Freeze: the rows of the rare group keep their initial values (AGG section 3.1, AGPS section 2.2).

The rare group is the static one of the declared frequency groups. Input look-ups see the constant rows too.
"""

from torch import Tensor

from raretokens.training import objective

OPTIONS: dict = {}


class Objective(objective.Objective):
    def frozen_rows(self) -> Tensor:
        return self.facts.rare
