"""Token-level unlikelihood lowers the probability of tokens that occurred earlier in the sequence (Welleck et al., 2020).

AGG table 4 compares against this method. Candidates come from the same sequence, unless `flatten_batch` is set.
"""

from raretokens.loss import objective
from raretokens.loss.terms import Unlikelihood

OPTIONS = {"alpha_ul": (1.0, ">= 0"), "flatten_batch": False}


class Objective(objective.Objective):
    def unlikelihood(self) -> Unlikelihood:
        return Unlikelihood(self.alpha_ul, self.flatten_batch)
