"""z-loss adds the squared logarithm of the softmax normaliser to the loss of each position (PaLM; arXiv 2601.02031).

    loss_i = -log p_i + strength * (log sum over k of exp z_ik)^2

The z-loss keeps the logits near zero. The mean embedding row shifts all logits by the same number. The likelihood ignores
that shift, but the z-loss penalises it.
"""

from raretokens.loss import objective

OPTIONS = {"strength": (1e-4, ">= 0")}


class Objective(objective.Objective):
    def z_loss(self) -> float:
        return self.strength
