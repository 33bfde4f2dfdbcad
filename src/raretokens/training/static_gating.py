"""Gates that never change: parts of the gradient of a fixed rare group are switched off (AGG section 3.3).

Of the gradient that reaches a rare row through the softmax, part (a) comes from positions whose target it is, part (b) from
targets that are not rare, and part (c) from other rare targets. Part (a) and the input side always act.
"""

import torch

from raretokens.training.gated_cross_entropy import Gate
from raretokens.training.objective import Facts, Objective


class StaticGating(Objective):
    """b and c: what parts (b) and (c) of the declared rare group are multiplied by."""

    def __init__(self, facts: Facts, b: float, c: float) -> None:
        super().__init__(facts)
        towards_nonrare, towards_rare = (torch.where(facts.rare, value, 1.0) for value in (b, c))
        self.register_buffer("rare", facts.rare.clone(), persistent=False)
        self.register_buffer("towards_nonrare", towards_nonrare, persistent=False)
        self.register_buffer("towards_rare", towards_rare, persistent=False)

    def gate(self) -> Gate:
        return Gate(self.rare, self.towards_nonrare, self.towards_rare)
