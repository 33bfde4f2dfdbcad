"""Gated linear cross-entropy: the softmax loss of a tied table whose gradient towards the table can be gated.

For positions i and token types k let z = h W^T, and let G be the loss's gradient in the logits (softmax minus target). Every
gating objective of the papers leaves dL/dH = G W alone and scales what reaches the table:

    dL/dW = (Gamma * G)^T H,    Gamma[i, k] = A[k] where the target of i is not rare, B[k] where it is, Gamma[i, y_i] = 1

The positions are walked in chunks and the gradients computed in the forward pass, so no positions x vocabulary matrix ever
exists. Positions whose target is not rare share one gate vector, so A multiplies the finished N x d sum once. They come first;
the few positions with a rare target follow, in the same chunks (a product of a few rows is slow), and are gated entry by entry.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from raretokens.loss.unlikelihood import Candidates, Unlikelihood

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
    nll: Tensor  # plain negative log-likelihood: no smoothing, weight, offset or unlikelihood


@torch.compiler.disable
def gated_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    gate: Gate | None = None,
    label_smoothing: float = 0.0,
    target_offset: Tensor | None = None,
    token_weight: Tensor | None = None,
    unlikelihood: Unlikelihood | None = None,
    ignore_index: int = -100,
    chunk: int | None = None,
) -> SummedLoss:
    """Sum of cross-entropies of softmax(hidden weight^T), with a gate on the gradient of weight.

    hidden: ... x d; weight: N x d; targets: ..., int64 in 0..N-1 or ignore_index. label_smoothing eps spreads eps / N over
    all types (fairseq's form). target_offset: ..., added to the target's logit, differentiable. token_weight: N, factor of
    the loss of a position by its target. unlikelihood: targets must be sequences x positions. Under autocast the matrix
    products run in its type; sums are float32.

    Raises ValueError on shapes that do not fit, and IndexError on a target outside 0..N-1. A second derivative is refused.
    """
    _check(hidden, weight, targets, gate, target_offset, token_weight)
    candidates = None if unlikelihood is None else Candidates(unlikelihood, targets, ignore_index)
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    offset = None if target_offset is None else target_offset.reshape(-1)
    kept = targets != ignore_index
    if not kept.all():
        hidden, targets = hidden[kept], targets[kept]
        offset = None if offset is None else offset[kept]
        candidates = None if candidates is None else candidates.keep(kept)
    if targets.numel() and not 0 <= int(targets.min()) <= int(targets.max()) < len(weight):
        raise IndexError(f"targets lie in {int(targets.min())}..{int(targets.max())}; allowed: 0..{len(weight) - 1}")
    chunk = chunk or (CHUNK_CUDA if hidden.is_cuda else CHUNK)
    extras = _Extras(offset, token_weight, candidates, label_smoothing)
    return SummedLoss(*_Gated.apply(hidden, weight, offset, targets, gate, extras, chunk))


class _Extras(NamedTuple):
    offset: Tensor | None
    token_weight: Tensor | None
    candidates: Candidates | None
    smoothing: float


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, offset, targets, gate, extras, chunk):  # type: ignore[override]
        work = _Work(hidden, weight, targets, gate, extras, any(ctx.needs_input_grad[:3]))
        with torch.autocast(hidden.device.type, enabled=False):
            work.walk(chunk)
        ctx.gradients = work.gradients(hidden, weight, offset)
        ctx.mark_non_differentiable(work.nll)
        return work.loss, work.nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss, _grad_nll):  # type: ignore[override]
        scaled = [None if grad is None else grad * grad_loss.to(grad.dtype) for grad in ctx.gradients]
        return (*scaled, None, None, None, None)


class _Work:
    """Sums and gradients, filled chunk by chunk."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate | None, extras: _Extras, wants_gradient: bool
    ) -> None:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        exact = torch.promote_types(dtype, torch.float32)  # of sums: float32 under autocast, float64 stays
        self.hidden, self.weight = hidden.detach().to(dtype), weight.detach().to(dtype)
        self.targets, self.gate, self.extras, self.exact = targets, gate, extras, exact
        self.loss = torch.zeros((), dtype=exact, device=hidden.device)
        self.nll = torch.zeros_like(self.loss)
        self.grad_hidden = self.grad_weight = self.grad_offset = None
        if wants_gradient:
            self.grad_hidden = torch.empty_like(self.hidden)
            self.grad_weight = torch.zeros_like(weight, dtype=exact)
            self.grad_offset = None if extras.offset is None else torch.empty_like(extras.offset, dtype=exact)

    def walk(self, chunk: int) -> None:
        """All positions, those with a rare target last: a chunk may hold some of both."""
        order, first_rare = self._order()
        for start in range(0, len(order), chunk):
            self._chunk(order[start : start + chunk], first_rare - start)

    def _order(self) -> tuple[Tensor, int]:
        """Positions in the order of the walk, and the place among them of the first with a rare target."""
        if self.gate is None:
            return torch.arange(len(self.targets), device=self.targets.device), len(self.targets)
        rare = self.gate.rare[self.targets]
        others = (~rare).nonzero().squeeze(1)
        return torch.cat((others, rare.nonzero().squeeze(1))), len(others)

    def _chunk(self, rows: Tensor, first_rare: int) -> None:
        """rows: positions; first_rare: as in `_table_gradient`."""
        hidden, column = self.hidden[rows], self.targets[rows, None]
        logits = (hidden @ self.weight.T).to(self.exact)  # rows x N
        plain = None
        if self.extras.offset is not None:
            plain = _logsumexp(logits) - logits.gather(1, column)
            logits.scatter_add_(1, column, self.extras.offset[rows, None].detach().to(self.exact))
        normaliser = _logsumexp(logits)
        nll = normaliser - logits.gather(1, column)
        loss, eps = nll, self.extras.smoothing
        if eps:
            loss = (1 - eps) * nll + eps * (normaliser - logits.mean(1, keepdim=True))
        self.nll += (nll if plain is None else plain).sum()
        if self.grad_weight is None and self.extras.candidates is None:
            self.loss += self._weighted(loss, column).sum()
            return
        error = logits.sub_(normaliser).exp_()  # the softmax; becomes dL/dz
        if self.extras.candidates is not None:
            extra, error = self.extras.candidates.apply(error, rows, column)
            loss = loss + extra
        self.loss += self._weighted(loss, column).sum()
        if self.grad_weight is not None:
            self._gradients(rows, hidden, column, self._less_target(error, column), first_rare)

    def _weighted(self, values: Tensor, column: Tensor) -> Tensor:
        weight = self.extras.token_weight
        return values if weight is None else values.mul_(weight[column].to(self.exact))

    def _less_target(self, error: Tensor, column: Tensor) -> Tensor:
        eps = self.extras.smoothing
        if eps:
            error.sub_(eps / error.shape[1])
        error.scatter_add_(1, column, torch.full_like(column, -(1 - eps), dtype=error.dtype))
        return self._weighted(error, column)

    def _gradients(self, rows: Tensor, hidden: Tensor, column: Tensor, error: Tensor, first_rare: int) -> None:
        if self.grad_offset is not None:
            self.grad_offset[rows] = error.gather(1, column).squeeze(1)
        # The one-hot is subtracted in float32 before the cast: in bfloat16 the difference would vanish where p is near 1.
        low = error.to(hidden.dtype)
        self.grad_hidden[rows] = low @ self.weight
        self._table_gradient(hidden, column, error, low, first_rare)

    def _table_gradient(self, hidden: Tensor, column: Tensor, error: Tensor, low: Tensor, first_rare: int) -> None:
        """first_rare: place of the first rare target of all, counted from this chunk: it may lie in a chunk before or behind."""
        size = len(hidden)
        split = min(max(first_rare, 0), size)
        self._add(low[:split], hidden[:split])
        if 0 < first_rare <= size:  # that was the last of the positions before it
            self._gate_table()
        if split < size:
            self._add(self._gated(error[split:], column[split:]).to(hidden.dtype), hidden[split:])

    def _gate_table(self) -> None:
        """Multiply the sum over all positions whose target is not rare by A."""
        if self.gate is not None:
            self.grad_weight.mul_(self.gate.nonrare_targets[:, None].to(self.exact))

    def _gated(self, error: Tensor, column: Tensor) -> Tensor:
        """error, of positions with a rare target, times B but at the target; in its place."""
        own = error.gather(1, column)
        return error.mul_(self.gate.rare_targets.to(error.dtype)).scatter_(1, column, own)

    def _add(self, error: Tensor, hidden: Tensor) -> None:
        if error.dtype == self.exact:
            self.grad_weight.addmm_(error.T, hidden)
        elif len(error):
            self.grad_weight += error.T @ hidden

    def gradients(self, hidden: Tensor, weight: Tensor, offset: Tensor | None) -> list[Tensor | None]:
        pairs = ((self.grad_hidden, hidden), (self.grad_weight, weight), (self.grad_offset, offset))
        return [None if grad is None else grad.to(value.dtype) for grad, value in pairs]


def _logsumexp(logits: Tensor) -> Tensor:
    """Of each row (rows x 1); in parts, for torch's own takes as much memory as the logits again."""
    return torch.cat([part.logsumexp(1, keepdim=True) for part in logits.split(max(len(logits) // 8, 64))])


def _check(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    gate: Gate | None,
    target_offset: Tensor | None,
    token_weight: Tensor | None,
) -> None:
    if weight.dim() != 2 or hidden.shape[-1] != weight.shape[1] or hidden.shape[:-1] != targets.shape:
        shapes = f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}, targets {tuple(targets.shape)}"
        raise ValueError(f"{shapes} do not fit; expected ... x d, N x d and ...")
    if target_offset is not None and target_offset.shape != targets.shape:
        raise ValueError(
            f"target_offset {tuple(target_offset.shape)} is not of the targets' shape {tuple(targets.shape)}"
        )
    vectors = {"token_weight": token_weight} | ({} if gate is None else gate._asdict())
    for name, vector in vectors.items():
        if vector is not None and vector.shape != weight.shape[:1]:
            raise ValueError(
                f"{name} has shape {tuple(vector.shape)}; expected one entry for each of {len(weight)} types"
            )
