"""Gated linear cross-entropy: the softmax loss of a tied table whose gradient towards the table can be gated.

For positions i and token types k let z = h W^T, and let G be the loss's gradient in the logits (softmax minus target). Every
gating objective of the papers leaves dL/dH = G W alone and scales what reaches the table:

    dL/dW = (Gamma * G)^T H,    Gamma[i, k] = A[k] where the target of i is not rare, B[k] where it is, Gamma[i, y_i] = 1

The positions are walked in chunks and the gradients computed in the forward pass, so no positions x vocabulary matrix ever
exists. Positions whose target is not rare share one gate vector, so A multiplies the finished N x d sum once; only the few
positions with a rare target are gated entry by entry.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 1024  # positions; fewer make the matrix products slow, more only take memory
CHUNK_CUDA = 4096


class Gate(NamedTuple):
    """Gate of one update. A and B must be 1 outside the rare set."""

    rare: Tensor  # N, bool: the objective's rare types
    nonrare_targets: Tensor  # N, float: A, for positions whose target is not rare
    rare_targets: Tensor  # N, float: B, for positions whose target is rare


class SummedLoss(NamedTuple):
    """Sums over the positions, natural logarithm; only `loss` carries a gradient."""

    loss: Tensor
    nll: Tensor  # plain negative log-likelihood: no smoothing, weight or offset


def gated_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    gate: Gate | None = None,
    label_smoothing: float = 0.0,
    target_offset: Tensor | None = None,
    token_weight: Tensor | None = None,
    ignore_index: int = -100,
    chunk: int | None = None,
) -> SummedLoss:
    """Sum of cross-entropies of softmax(hidden weight^T), with a gate on the gradient of weight.

    hidden: ... x d; weight: N x d; targets: ..., int64 in 0..N-1 or ignore_index. label_smoothing eps spreads eps / N over
    all types (fairseq's form). target_offset: ..., added to the target's logit, differentiable. token_weight: N, factor of
    the loss of a position by its target. Under autocast the matrix products run in its type; sums are float32.

    Raises ValueError on shapes that do not fit, and IndexError on a target outside 0..N-1. A second derivative is refused.
    """
    _check(hidden, weight, targets, gate, target_offset, token_weight)
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    offset = None if target_offset is None else target_offset.reshape(-1)
    kept = targets != ignore_index
    if not kept.all():
        hidden, targets = hidden[kept], targets[kept]
        offset = None if offset is None else offset[kept]
    if targets.numel() and not 0 <= int(targets.min()) <= int(targets.max()) < weight.shape[0]:
        raise IndexError(
            f"targets lie in {int(targets.min())}..{int(targets.max())}; allowed: 0..{weight.shape[0] - 1}"
        )
    chunk = chunk or (CHUNK_CUDA if hidden.is_cuda else CHUNK)
    return SummedLoss(*_Gated.apply(hidden, weight, offset, targets, gate, token_weight, label_smoothing, chunk))


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, offset, targets, gate, token_weight, label_smoothing, chunk):  # type: ignore[override]
        work = _Work(hidden, weight, offset, targets, token_weight, label_smoothing, any(ctx.needs_input_grad[:3]))
        with torch.autocast(hidden.device.type, enabled=False):
            if gate is None:
                work.walk(torch.arange(len(targets), device=targets.device), chunk)
            else:
                rare = gate.rare[targets]
                work.walk((~rare).nonzero().squeeze(1), chunk)
                work.gate_table(gate.nonrare_targets)
                work.walk(rare.nonzero().squeeze(1), chunk, gate.rare_targets)
        ctx.gradients = work.gradients(hidden, weight, offset)
        ctx.mark_non_differentiable(work.nll)
        return work.loss, work.nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss, _grad_nll):  # type: ignore[override]
        scaled = [None if grad is None else grad * grad_loss.to(grad.dtype) for grad in ctx.gradients]
        return (*scaled, None, None, None, None, None)


class _Work:
    """Sums and gradients, filled chunk by chunk."""

    def __init__(self, hidden, weight, offset, targets, token_weight, label_smoothing, wants_gradient):
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        exact = torch.promote_types(dtype, torch.float32)  # of sums: float32 under autocast, float64 stays
        self.hidden, self.weight = hidden.detach().to(dtype), weight.detach().to(dtype)
        self.offset, self.targets, self.token_weight = offset, targets, token_weight
        self.smoothing, self.exact = label_smoothing, exact
        self.loss = torch.zeros((), dtype=exact, device=hidden.device)
        self.nll = torch.zeros_like(self.loss)
        self.grad_hidden = self.grad_weight = self.grad_offset = None
        if wants_gradient:
            self.grad_hidden = torch.empty_like(self.hidden)
            self.grad_weight = torch.zeros_like(weight, dtype=exact)
            self.grad_offset = None if offset is None else torch.empty_like(offset, dtype=exact)

    def walk(self, positions: Tensor, chunk: int, entry_gate: Tensor | None = None) -> None:
        for rows in positions.split(chunk):
            self._chunk(rows, entry_gate)

    def gate_table(self, gate: Tensor) -> None:
        if self.grad_weight is not None:
            gated = (gate != 1).nonzero().squeeze(1)
            self.grad_weight[gated] *= gate[gated, None].to(self.exact)

    def _chunk(self, rows: Tensor, entry_gate: Tensor | None) -> None:
        hidden, targets = self.hidden[rows], self.targets[rows]
        column = targets[:, None]
        logits = (hidden @ self.weight.T).to(self.exact)  # rows x N
        plain = None
        if self.offset is not None:
            plain = logits.logsumexp(1, keepdim=True) - logits.gather(1, column)
            logits.scatter_add_(1, column, self.offset[rows, None].detach().to(self.exact))
        normaliser = logits.logsumexp(1, keepdim=True)
        nll = normaliser - logits.gather(1, column)
        loss, eps = nll, self.smoothing
        if eps:
            loss = (1 - eps) * nll + eps * (normaliser - logits.mean(1, keepdim=True))
        factor = None if self.token_weight is None else self.token_weight[targets, None].to(self.exact)
        self.loss += (loss if factor is None else loss * factor).sum()
        self.nll += (nll if plain is None else plain).sum()
        if self.grad_weight is not None:
            self._gradient(rows, hidden, column, logits.sub_(normaliser).exp_(), factor, entry_gate)

    def _gradient(self, rows, hidden, column, error, factor, entry_gate) -> None:
        """error arrives as the softmax and becomes dL/dz: softmax minus (smoothed) target."""
        eps = self.smoothing
        if eps:
            error.sub_(eps / error.shape[1])
        error.scatter_add_(1, column, torch.full_like(column, -(1 - eps), dtype=error.dtype))
        if factor is not None:
            error.mul_(factor)
        if self.grad_offset is not None:
            self.grad_offset[rows] = error.gather(1, column).squeeze(1)
        # The one-hot is subtracted in float32 before the cast: in bfloat16 the difference would vanish where p is near 1.
        low = error.to(hidden.dtype)
        self.grad_hidden[rows] = low @ self.weight
        if entry_gate is not None:
            own = error.gather(1, column)
            low = error.mul_(entry_gate.to(error.dtype)).scatter_(1, column, own).to(hidden.dtype)
        if low.dtype == self.exact:
            self.grad_weight.addmm_(low.T, hidden)
        else:
            self.grad_weight += low.T @ hidden

    def gradients(self, hidden: Tensor, weight: Tensor, offset: Tensor | None) -> list[Tensor | None]:
        pairs = ((self.grad_hidden, hidden), (self.grad_weight, weight), (self.grad_offset, offset))
        return [None if grad is None else grad.to(value.dtype) for grad, value in pairs]


def _check(hidden, weight, targets, gate, target_offset, token_weight) -> None:
    if weight.dim() != 2 or hidden.shape[-1] != weight.shape[1] or hidden.shape[:-1] != targets.shape:
        shapes = f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}, targets {tuple(targets.shape)}"
        raise ValueError(f"{shapes} do not fit; expected ... x d, N x d and ...")
    if target_offset is not None and target_offset.shape != targets.shape:
        raise ValueError(
            f"target_offset {tuple(target_offset.shape)} is not of the targets' shape {tuple(targets.shape)}"
        )
    for name, vector in (("gate", gate and gate.rare), ("token_weight", token_weight)):
        if vector is not None and vector.shape != weight.shape[:1]:
            raise ValueError(
                f"{name} has shape {tuple(vector.shape)}; expected one entry for each of {weight.shape[0]} types"
            )
