"""Token-level unlikelihood lowers the probability of tokens that occurred earlier in the sequence (Welleck et al., 2020).

AGG table 4 compares against this method. Candidates come from the same sequence, unless `flatten_batch` is set.
"""

from raretokens.loss import objective
from raretokens.loss.terms import Unlikelihood

OPTIONS = {"alpha_ul": (1.0, ">= 0"), "flatten_batch": False}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, alpha_ul: float, flatten_batch: bool) -> None:
        super().__init__(facts)
        self.settings = Unlikelihood(alpha_ul, flatten_batch)

    def unlikelihood(self) -> Unlikelihood:
        return self.settings
