"""Weight decay shrinks the embedding matrix alone, by decoupled decay or by an L2 term in the loss (FRAGE table 10).

With `form: decoupled` the optimizer applies the decay. With `form: l2` the loss contains rate * |W|^2 / N.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from raretokens.loss import objective

OPTIONS = {"rate": (0.2, ">= 0"), "form": ("decoupled", "l2")}


class Objective(objective.Objective):
    def penalty(self, weight: Tensor) -> Tensor | None:
        return self.rate * weight.square().sum() / len(weight) if self.form == "l2" else None

    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        if self.form == "decoupled":
            groups = [{**group, "weight_decay": self.rate} if group["embedding"] else group for group in groups]
        return super().optimizer(groups, **adam)
