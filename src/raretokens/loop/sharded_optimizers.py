"""Optimizer rules of objectives for a sharded embedding matrix: Coupled Adam and Ember.

State with a number for each row or weight is sharded as the matrix, so that a checkpoint can be loaded on another number of
processes. State of length d is the same on all processes.
"""

from typing import Any

import torch

from raretokens.errors import UserError
from raretokens.loop.row_shard import RowShard
from raretokens.objectives import coupled_adam, ember
from raretokens.objectives.embedding_adamw import EmbeddingAdamW


class ShardedCoupledAdamW(coupled_adam.CoupledAdamW):
    """Coupled Adam of a sharded embedding matrix. The mean over the vocabulary comes from the sums of all processes."""

    def step_embedding(self, group: dict, embedding: Any, gradient: Any, state: dict) -> None:
        shard, own = RowShard(embedding), gradient.to_local()
        beta1, beta2 = group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(embedding)
            state["exp_avg_sq"] = own.new_zeros(own.shape[1])
        state["step"] += 1
        step, average = float(state["step"]), state["exp_avg"].to_local()
        average.lerp_(own, 1 - beta1)
        mean = shard.sum(own.square().sum(0)) / embedding.shape[0]
        state["exp_avg_sq"].mul_(beta2).add_(mean, alpha=(1 - beta2) * self.average_scale)
        root = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt_().add_(group["eps"])
        embedding.to_local().sub_(average / root, alpha=group["lr"] / (1 - beta1**step))


class ShardedEmber(ember.Ember):
    """Ember of a sharded embedding matrix: each process has the row means of its rows, and all have the column means."""

    def step_embedding(self, group: dict, embedding: Any, gradient: Any, state: dict) -> None:
        shard, own = RowShard(embedding), gradient.to_local()
        exact = torch.promote_types(own.dtype, torch.float32)
        if not state:
            state["step"] = torch.zeros(())
            state["rows"] = shard.full_vector(own.new_zeros(len(own), dtype=exact))
            state["columns"] = own.new_zeros(own.shape[1], dtype=exact)
        state["step"] += 1
        squares = own.to(exact).square()
        rows, own_rows = squares.mean(1), state["rows"].to_local()
        own_rows.lerp_(rows, 1 - self.beta2)
        with_gradient = (rows > 0).sum().to(exact)[None]
        sums = shard.sum(torch.cat((squares.sum(0), with_gradient, own_rows.sum()[None])))
        state["columns"].lerp_(sums[:-2] / sums[-2].clamp(min=1), 1 - self.beta2)
        mean = sums[-1] / embedding.shape[0]
        scale = mean.clamp(min=ember.SMALLEST) * (1 - self.beta2 ** float(state["step"]))
        second = torch.outer(own_rows, state["columns"] / scale)
        root = second.sqrt_().add_(group["eps"]).to(own.dtype)
        embedding.to_local().addcdiv_(own, root, value=-group["lr"])


def sharded_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return an objective's optimizer with its rule for the embedding matrix in the form for sharded rows.

    Raises:
        UserError: if the rule has no such form.
    """
    if isinstance(optimizer, EmbeddingAdamW):
        form = RULES.get(type(optimizer))
        if form is None:
            rules = " and ".join(rule.__name__ for rule in RULES)
            raise UserError(f"{type(optimizer).__name__} has no form for a sharded embedding matrix: should be {rules}")
        optimizer.__class__ = form
    return optimizer


RULES: dict[type, type] = {coupled_adam.CoupledAdamW: ShardedCoupledAdamW, ember.Ember: ShardedEmber}
