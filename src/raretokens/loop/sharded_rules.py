"""Rules of objectives for a sharded embedding matrix: penalties, step ends and optimizers on the rows that a process stores.

The objectives' files have the same formulas for a whole matrix. Each of them depends on the rows through sums, so processes
exchange sums: of length d for CosReg, mu-loss, mu-centering and Coupled Adam, d + 2 for Ember, d x d for spectrum control, and
two numbers for FRAGE. For a penalty or step end without a rule in this file, such as a custom one, each process gathers the whole
matrix.

State of an optimizer with a number for each row or weight is sharded as the matrix, so that a checkpoint can be loaded on another
number of processes. State of length d is the same on all processes.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import normalize, softplus

from raretokens.errors import UserError
from raretokens.loop.row_shard import RowShard
from raretokens.loss.objective import Objective
from raretokens.objectives import (
    cosreg,
    coupled_adam,
    ember,
    frage,
    mu_centering,
    mu_loss,
    spectrum_control,
    weight_decay,
)
from raretokens.objectives.embedding_adamw import EmbeddingAdamW


def penalty(objective: Objective, shard: RowShard) -> Tensor | None:
    """Return the objective's penalty, which is the same number on all processes."""
    if type(objective).penalty is Objective.penalty:
        return None
    rule = PENALTIES.get(type(objective))
    return objective.penalty(shard.whole()) if rule is None else rule(objective, shard)


@torch.no_grad()
def end_step(objective: Objective, shard: RowShard) -> None:
    """Finish a training step, as `Objective.end_step`."""
    if type(objective).end_step is Objective.end_step:
        return
    rule = STEP_ENDS.get(type(objective))
    if rule is not None:
        rule(objective, shard)
        return
    whole = shard.whole().detach()
    objective.end_step(whole)
    shard.own().copy_(whole[shard.start : shard.stop])


def sharded_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return an objective's optimizer with its rule for the embedding matrix in the form for sharded rows.

    Raises:
        UserError: if the rule has no such form.
    """
    if isinstance(optimizer, EmbeddingAdamW):
        form = OPTIMIZERS.get(type(optimizer))
        if form is None:
            rules = " and ".join(rule.__name__ for rule in OPTIMIZERS)
            raise UserError(f"{type(optimizer).__name__} has no form for a sharded embedding matrix: should be {rules}")
        optimizer.__class__ = form
    return optimizer


def _used(objective: Any, shard: RowShard) -> Tensor:
    """Return the own rows that text can use, at least in float32."""
    own = shard.own()
    return own[shard.local(objective.used)].to(torch.promote_types(own.dtype, torch.float32))


def _mean_row(objective: Any, shard: RowShard) -> Tensor:
    return shard.sum(_used(objective, shard).sum(0)) / len(objective.used)


def _cosreg(objective: Any, shard: RowShard) -> Tensor:
    n = len(objective.used)
    total = shard.sum(normalize(_used(objective, shard), dim=1, eps=1e-8).sum(0))
    return objective.gamma * (total.square().sum() - n) / n**2


def _mu_loss(objective: Any, shard: RowShard) -> Tensor:
    return objective.strength * _mean_row(objective, shard).square().sum()


def _spectrum(objective: Any, shard: RowShard) -> Tensor:
    rows = _used(objective, shard)
    values = torch.linalg.eigvalsh(shard.sum(rows.T @ rows)).clamp(min=1e-12).sqrt().flip(0)
    return objective.strength * (values / values[0] - objective.prior[: len(values)].to(rows.dtype)).square().mean()


def _squares(objective: Any, shard: RowShard) -> Tensor | None:
    if objective.form != "l2":
        return None
    return objective.rate * shard.sum(shard.own().square().sum()) / shard.matrix.shape[0]


def _mu_centering(objective: Any, shard: RowShard) -> None:
    own = shard.own()
    own.sub_(_mean_row(objective, shard).to(own.dtype))


# FRAGE


def _frage(objective: Any, shard: RowShard) -> Tensor | None:
    if objective.number <= objective.start:
        return None
    fixed = {name: value.detach() for name, value in objective.discriminator.named_parameters()}
    return -objective.strength * _cross_entropy(objective, shard, shard.own(), fixed, objective.rare_only)


def _frage_ends(objective: Any, shard: RowShard) -> None:
    if objective.number > objective.start:
        for _ in range(objective.steps):
            _discriminator_step(objective, shard)


def _cross_entropy(
    objective: Any, shard: RowShard, own: Tensor, parameters: dict[str, Tensor], rare_only: bool = False
) -> Tensor:
    """Return CE of the whole embedding matrix under the discriminator's parameters, from the own rows."""
    sums, sizes = [], []
    for ids, sign in zip(_frage_ids(objective), (-1.0, 1.0), strict=True):  # popular rows have label 1
        rows = own[shard.local(ids)].to(parameters[next(iter(parameters))].dtype)
        rows = rows.detach() if rare_only and sign < 0 else rows
        sums.append(softplus(sign * functional_call(objective.discriminator, parameters, (rows,))).sum())
        sizes.append(len(ids))
    popular, rare = shard.sum(torch.stack(sums))
    return popular / sizes[0] + rare / sizes[1] if objective.balanced else (popular + rare) / sum(sizes)


def _frage_ids(objective: Any) -> tuple[Tensor, Tensor]:
    """Return the ids of the popular and rare rows of this step. All processes sample the same rows."""
    if not objective.minibatch:
        return objective.popular_rows, objective.rare_rows
    generator, half = torch.Generator().manual_seed(objective.number), objective.minibatch // 2
    drawn = [
        ids[torch.randint(len(ids), (size,), generator=generator).to(ids.device)]
        for ids, size in ((objective.popular_ids, half), (objective.rare_ids, objective.minibatch - half))
    ]
    return drawn[0], drawn[1]


def _discriminator_step(objective: Any, shard: RowShard) -> None:
    """Take one gradient step of the discriminator, which is the same on all processes."""
    parameters = dict(objective.discriminator.named_parameters())
    own = shard.own().detach()
    with torch.enable_grad():
        rows = own.clone().requires_grad_() if objective.moves_table else own
        loss = _cross_entropy(objective, shard, rows, parameters)
        moved = [*parameters.values(), *([rows] if objective.moves_table else [])]
        gradients = torch.autograd.grad(loss, moved)
    for value, gradient in zip(parameters.values(), gradients, strict=False):
        value.sub_(shard.sum(gradient), alpha=objective.lr)
    if objective.moves_table:
        own.sub_(gradients[-1], alpha=objective.lr)


# Optimizers


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


PENALTIES: dict[type, Callable[[Any, RowShard], Tensor | None]] = {
    cosreg.Objective: _cosreg,
    mu_loss.Objective: _mu_loss,
    spectrum_control.Objective: _spectrum,
    weight_decay.Objective: _squares,
    frage.Objective: _frage,
}
STEP_ENDS: dict[type, Callable[[Any, RowShard], None]] = {
    mu_centering.Objective: _mu_centering,
    frage.Objective: _frage_ends,
}
OPTIMIZERS: dict[type, type] = {coupled_adam.CoupledAdamW: ShardedCoupledAdamW, ember.Ember: ShardedEmber}
