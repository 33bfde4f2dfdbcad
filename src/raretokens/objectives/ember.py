"""Ember factors the second moment of the embedding matrix into one running mean per row and one per column (arXiv 2607.01455).

Ember is an optimizer rule without momentum. With g the gradient of the embedding matrix in training step t,

    r_i: running mean of the mean of g_ij^2 over j        c_j: the same over the rows that have a gradient
    v_ij = r_i * c_j / (mean of r) / (1 - beta2^t)        w_ij <- w_ij - lr * g_ij / (sqrt(v_ij) + eps)

The optimizer state has N + d numbers instead of 2 N d. The paper argues that Adam's steps on rare rows are far too large.
Ember uses the option beta2, not the recipe's betas. Learning rate, eps and decoupled weight decay are those of all parameters.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.objectives.embedding_adamw import EmbeddingAdamW

OPTIONS = {"beta2": (0.999, ">= 0", "< 1")}
SMALLEST = 1e-30  # lower bound of the mean of r, so that an embedding matrix with zero gradient does not change


class Objective(objective.Objective):
    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        return Ember(groups, beta2=self.beta2, **adam)


class Ember(EmbeddingAdamW):
    """Optimizer that applies Ember's rule to embedding matrices and AdamW to all other parameters."""

    def __init__(self, groups: Iterable[dict], beta2: float = 0.999, **adam: float) -> None:
        super().__init__(groups, **adam)
        self.beta2 = beta2

    def step_embedding(self, group: dict, embedding: Tensor, gradient: Tensor, state: dict) -> None:
        exact = torch.promote_types(embedding.dtype, torch.float32)
        if not state:
            state["step"] = torch.zeros(())
            state["rows"] = torch.zeros_like(embedding[:, 0], dtype=exact)
            state["columns"] = torch.zeros_like(embedding[0], dtype=exact)
        state["step"] += 1
        squares = gradient.to(exact).square()
        rows = squares.mean(1)
        state["rows"].lerp_(rows, 1 - self.beta2)
        state["columns"].lerp_(squares.sum(0) / (rows > 0).sum().clamp(min=1), 1 - self.beta2)
        scale = state["rows"].mean().clamp(min=SMALLEST) * (1 - self.beta2 ** float(state["step"]))
        second = torch.outer(state["rows"], state["columns"] / scale)
        embedding.addcdiv_(gradient, second.sqrt_().add_(group["eps"]).to(embedding.dtype), value=-group["lr"])
