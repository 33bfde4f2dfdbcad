"""z-loss: the squared logarithm of the softmax's normaliser is added to the loss of a position (PaLM; arXiv 2601.02031).

    loss_i = -log p_i + strength * (log sum over k of exp z_ik)^2

It holds the logits near zero. The mean row moves all logits together, which the likelihood does not see; this loss does.
"""

from raretokens.loss import objective

OPTIONS = {"strength": (1e-4, ">= 0")}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, strength: float) -> None:
        super().__init__(facts)
        self.strength = strength

    def z_loss(self) -> float:
        return self.strength
