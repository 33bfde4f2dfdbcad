"""Coupled Adam averages Adam's second moment over the vocabulary (Stollenwerk and Stollenwerk, 2025, arXiv 2502.08441).

Coupled Adam changes the optimizer, not the loss. Adam's own second moment makes the steps of rare rows large and similar, which
moves the whole embedding matrix away from the origin. The mean over the vocabulary commutes with the running average, so the
optimizer stores one vector of length d instead of an N x d matrix.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from raretokens.loss import objective
from raretokens.objectives.embedding_adamw import EmbeddingAdamW

OPTIONS = {"average_scale": (1.0, "> 0")}


class Objective(objective.Objective):
    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        return CoupledAdamW(groups, average_scale=self.average_scale, **adam)


class CoupledAdamW(EmbeddingAdamW):
    """AdamW that divides each embedding row's step by the root of the second moment averaged over the vocabulary."""

    def __init__(self, groups: Iterable[dict], average_scale: float = 1.0, **adam: float) -> None:
        super().__init__(groups, **adam)
        self.average_scale = average_scale

    def step_embedding(self, group: dict, embedding: Tensor, gradient: Tensor, state: dict) -> None:
        beta1, beta2 = group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(embedding)
            state["exp_avg_sq"] = torch.zeros_like(embedding[0])  # d: the mean over the vocabulary
        state["step"] += 1
        step = float(state["step"])
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).add_(gradient.square().mean(0), alpha=(1 - beta2) * self.average_scale)
        root = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt_().add_(group["eps"])
        embedding.sub_(state["exp_avg"] / root, alpha=group["lr"] / (1 - beta1**step))
