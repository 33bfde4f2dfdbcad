"""Gated linear cross-entropy: softmax loss with a gate on the gradient of the output embedding.

For positions i and token types k let z = h W^T, and let G be the gradient of the loss in the logits (softmax minus target). Every
gating objective of the papers keeps dL/dH = G W unchanged and scales the gradient of the embedding matrix:

    dL/dW = (Gamma * G)^T H,    Gamma[i, k] = A[k] where the target of i is not rare, B[k] where it is, Gamma[i, y_i] = 1

chunks.py computes the loss chunk by chunk, without a positions x vocabulary matrix.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from raretokens.loss.chunks import Chunks
from raretokens.loss.terms import PLAIN, Candidates, Gate, Head, SummedLoss, Terms, Unlikelihood

CHUNK = 1024  # positions; smaller chunks slow down the matrix products, larger ones only take memory
CHUNK_CUDA = 4096
# torch.compiler.disable imports the compiler where it decorates, which doubles the time of importing this library. What torch's
# own optimizers use instead imports it in the first call.
without_compiler = getattr(torch, "_disable_dynamo", torch.compiler.disable)


@without_compiler
def gated_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    gate: Gate | None = None,
    head: Head = PLAIN,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    target_offset: Tensor | None = None,
    token_weight: Tensor | None = None,
    unlikelihood: Unlikelihood | None = None,
    ignore_index: int = -100,
    rows: Tensor | None = None,
    chunk: int | None = None,
) -> SummedLoss:
    """Return the sum of cross-entropies of softmax(hidden weight^T), with a gate on the gradient of weight.

    Args:
        hidden: ... x d.
        weight: N x d.
        targets: ..., int64 in 0..N-1 or ignore_index.
        gate: gate on the gradient of weight; None: no gate.
        head: bias, scale and soft-cap of the logits. The gate does not act on the gradient of the bias, but in bfloat16 on a CPU:
            there, `weighted_linear_cross_entropy` with weights of 1 is right, and `Loop` calls it.
        label_smoothing: eps, which spreads eps / N over all types (fairseq's form).
        z_loss: weight of the squared logarithm of the softmax normaliser.
        target_offset: ..., differentiable, added to the logits of the targets.
        token_weight: N, factor of a position's loss by its target.
        unlikelihood: settings of the unlikelihood term, which needs targets of shape sequences x positions.
        ignore_index: target id of positions without a loss.
        rows: flat indices of all positions with a loss, if they are known. Their targets are then not checked, so a GPU
            need not finish its earlier work first.
        chunk: positions per chunk.

    Under autocast, matrix products run in autocast's dtype and sums in float32. For float16, gradient products run in float32
    and are rounded only after the backward pass has scaled them, because most of a rare row's gradient would underflow.

    Raises:
        ValueError: if shapes do not match, or label_smoothing or z_loss is out of range.
        IndexError: if a target lies outside 0..N-1.
        RuntimeError: from torch, if the incoming gradient requires a gradient. There are no second derivatives.
    """
    _check(hidden, weight, targets, gate, head, target_offset, token_weight)
    if not (0 <= label_smoothing < 1 and 0 <= z_loss < math.inf):
        raise ValueError(f"label_smoothing {label_smoothing}, z_loss {z_loss}; allowed: 0 to less than 1, and 0 or more")
    candidates = None if unlikelihood is None else Candidates(unlikelihood, targets, ignore_index)
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    offset = None if target_offset is None else target_offset.reshape(-1)
    kept = targets != ignore_index if rows is None else rows
    if not (kept.all() if rows is None else len(rows) == len(targets)):
        hidden, targets = hidden[kept], targets[kept]
        offset = None if offset is None else offset[kept]
        candidates = None if candidates is None else candidates.keep(kept)
    if rows is None:
        check_targets(targets, len(weight))
    chunk = chunk or (CHUNK_CUDA if hidden.is_cuda else CHUNK)
    terms = Terms(gate, head, offset, token_weight, candidates, label_smoothing, z_loss)
    return SummedLoss(*_Gated.apply(hidden, weight, offset, head.bias, targets, terms, chunk))


def check_targets(targets: Tensor, types: int) -> None:
    """Raise IndexError if a target lies outside 0..types-1."""
    if targets.numel() and not 0 <= int(targets.min()) <= int(targets.max()) < types:
        raise IndexError(f"targets lie in {int(targets.min())}..{int(targets.max())}; allowed: 0..{types - 1}")


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, offset, bias, targets, terms, chunk):  # type: ignore[override]
        work = Chunks(hidden, weight, targets, terms, any(ctx.needs_input_grad[:4]), chunk)
        with torch.autocast(hidden.device.type, enabled=False):
            work.walk()
        ctx.gradients = work.grad_hidden, work.grad_weight, work.grad_offset, work.grad_bias
        ctx.types = [None if value is None else value.dtype for value in (hidden, weight, offset, bias)]
        ctx.mark_non_differentiable(work.nll)
        return work.loss, work.nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss, _grad_nll):  # type: ignore[override]
        pairs = zip(ctx.gradients, ctx.types, strict=True)
        return (*(None if grad is None else _scaled(grad, grad_loss, dtype) for grad, dtype in pairs), None, None, None)


def _scaled(gradient: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Scale in the wider of both dtypes, so that a gradient scaler acts before small numbers are rounded."""
    wide = torch.promote_types(gradient.dtype, dtype)
    return (gradient.to(wide) * factor.to(wide)).to(dtype)


def _check(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    gate: Gate | None,
    head: Head,
    target_offset: Tensor | None,
    token_weight: Tensor | None,
) -> None:
    if weight.dim() != 2 or hidden.shape[-1] != weight.shape[1] or hidden.shape[:-1] != targets.shape:
        shapes = f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}, targets {tuple(targets.shape)}"
        raise ValueError(f"{shapes} do not fit; expected ... x d, N x d and ...")
    if target_offset is not None and target_offset.shape != targets.shape:
        raise ValueError(f"target_offset {tuple(target_offset.shape)} is not of the targets' shape {tuple(targets.shape)}")
    if target_offset is not None and (head.scale, head.softcap) != (1.0, None):
        raise ValueError("target_offset is of plain logits: not defined with a scale or soft-cap of the head")
    if not 0 < (1.0 if head.softcap is None else head.softcap) < float("inf") or not 0 < head.scale < float("inf"):
        raise ValueError(f"head: scale {head.scale}, softcap {head.softcap}; allowed: positive numbers")
    vectors = {"token_weight": token_weight, "bias": head.bias} | ({} if gate is None else gate._asdict())
    for name, vector in vectors.items():
        if vector is not None and vector.shape != weight.shape[:1]:
            raise ValueError(f"{name} has shape {tuple(vector.shape)}; expected one entry for each of {len(weight)} types")
