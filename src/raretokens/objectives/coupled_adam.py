"""Coupled Adam (Stollenwerk and Stollenwerk, 2025, arXiv 2502.08441): the table's second moment is averaged over the vocabulary.

Not a loss but an optimizer rule: Adam's own second moment makes the steps of rare rows large and alike, which moves the whole
table off the origin. The mean commutes with the running average, so one d-vector is kept instead of N x d.
"""

from collections.abc import Callable, Iterable

import torch

from raretokens.loss import objective

OPTIONS = {"average_scale": 1.0}


class Objective(objective.Objective):
    def __init__(self, facts: objective.Facts, average_scale: float) -> None:
        super().__init__(facts)
        self.average_scale = average_scale

    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        return CoupledAdamW(groups, average_scale=self.average_scale, fused=True, **adam)


class CoupledAdamW(torch.optim.AdamW):
    """AdamW whose groups with `table=True` divide each row's step by the root of the vocabulary's mean second moment."""

    def __init__(self, groups: Iterable[dict], average_scale: float = 1.0, **adam: float) -> None:
        super().__init__(groups, **adam)
        self.average_scale = average_scale

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        tables = [
            (group, p) for group in self.param_groups if group["table"] for p in group["params"] if p.grad is not None
        ]
        gradients = [p.grad for _, p in tables]
        for _, parameter in tables:
            parameter.grad = None  # the ordinary step leaves parameters without a gradient alone
        result = super().step(closure)
        for (group, parameter), gradient in zip(tables, gradients, strict=True):
            parameter.grad = gradient
            self._coupled(group, parameter, gradient)
        return result

    def _coupled(self, group: dict, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter[0])  # d: the mean over the vocabulary
        state["step"] += 1
        step = float(state["step"])
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).add_(gradient.square().mean(0), alpha=(1 - beta2) * self.average_scale)
        root = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt_().add_(group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_(state["exp_avg"] / root, alpha=group["lr"] / (1 - beta1**step))
