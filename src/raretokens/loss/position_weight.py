"""Gated linear cross-entropy with a weight for each position, such as an advantage or the turns of a conversation to learn.

The weight of a position multiplies its loss, and with it the row of the position in the gradient G of the logits. The gate, which
has one factor for each type, acts on the weighted gradient, so both are independent of each other.
"""

import torch
from torch import Tensor

from raretokens.errors import UserError
from raretokens.loss.chunks import Chunks
from raretokens.loss.gated_cross_entropy import CHUNK, CHUNK_CUDA, _check, _Gated, check_targets, without_compiler
from raretokens.loss.objective import Objective
from raretokens.loss.terms import PLAIN, Gate, Head, SummedLoss, Terms


@without_compiler
def weighted_linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    position_weight: Tensor,
    *,
    gate: Gate | None = None,
    head: Head = PLAIN,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    token_weight: Tensor | None = None,
    ignore_index: int = -100,
    chunk: int | None = None,
) -> SummedLoss:
    """Return the sum over positions of position_weight times the loss of `gated_linear_cross_entropy`.

    Args:
        position_weight: of the targets' shape; real numbers, also negative ones. They get no gradient. For a weighted mean,
            divide the loss by the sum of the weights of positions with a target. Weights of other positions do not count.

    The other arguments are those of `gated_linear_cross_entropy`. `nll` of the result has no weights. On a GPU, each operation
    between the matrix products is a kernel of its own, as with a soft-cap.

    Raises:
        TypeError: if position_weight is no tensor of real numbers.
        ValueError: if shapes do not match, a weight is not finite, or label_smoothing or z_loss is out of range.
        IndexError: if a target lies outside 0..N-1.
    """
    _check(hidden, weight, targets, gate, head, None, token_weight)
    if not isinstance(position_weight, Tensor) or position_weight.is_complex():
        kind = position_weight.dtype if isinstance(position_weight, Tensor) else type(position_weight).__name__
        raise TypeError(f"position_weight is {kind}; should be a tensor of real numbers, of shape {tuple(targets.shape)}")
    if position_weight.shape != targets.shape:
        raise ValueError(f"position_weight {tuple(position_weight.shape)} is not of the targets' shape {tuple(targets.shape)}")
    if not (0 <= label_smoothing < 1 and 0 <= z_loss < float("inf")):
        raise ValueError(f"label_smoothing {label_smoothing}, z_loss {z_loss}; allowed: 0 to less than 1, and 0 or more")
    kept = targets.reshape(-1) != ignore_index
    rows, columns = hidden.reshape(-1, hidden.shape[-1])[kept], targets.reshape(-1)[kept]
    factor = position_weight.detach().to(targets.device, torch.promote_types(hidden.dtype, torch.float32)).reshape(-1)[kept]
    if not factor.isfinite().all():
        raise ValueError("position_weight is not finite at a position with a target; allowed: finite numbers")
    check_targets(columns, len(weight))
    terms = Terms(gate, head, None, token_weight, None, label_smoothing, z_loss)
    chunk = chunk or (CHUNK_CUDA if hidden.is_cuda else CHUNK)
    return SummedLoss(*_Weighted.apply(rows, weight, None, head.bias, columns, terms, chunk, factor))


def terms_without_weights(objective: Objective) -> list[str]:
    """Return the names of what the objective adds to the softmax loss of each position."""
    terms = ["target_offset", "hidden_term", "input_term"]
    own = [name for name in terms if getattr(type(objective), name) is not getattr(Objective, name)]
    own += ["unlikelihood"] if objective.unlikelihood() is not None else []
    return own + loss_of_its_own(objective)


def loss_of_its_own(objective: Objective) -> list[str]:
    """Return what makes the objective's `loss` differ from that of the base class: for AGG, the option unmasked_pad."""
    method = type(objective).loss
    if method is Objective.loss:
        return []
    if method.__module__ == "raretokens.objectives.agg":
        return ["unmasked_pad"] if objective.unmasked_pad else []
    return ["loss"]


def weighted_loss(
    objective: Objective, hidden: Tensor, weight: Tensor, targets: Tensor, position_weight: Tensor, head: Head = PLAIN
) -> SummedLoss:
    """Return the loss of an objective in training, as `Objective.loss`, with a weight for each position.

    Raises:
        UserError: the objective has a term that is no sum over positions of the softmax loss.
    """
    if own := terms_without_weights(objective):
        does = "allowed: objectives whose loss is the softmax loss of each position, such as mle, agg, freeze and cosreg"
        raise UserError(f"position_weight: {objective.name} also has {', '.join(own)}; {does}")
    facts = objective.facts
    return weighted_linear_cross_entropy(
        hidden, weight, targets, position_weight, gate=objective.gate(), head=head, label_smoothing=facts.label_smoothing,
        z_loss=objective.z_loss(), token_weight=objective.token_weight(), ignore_index=facts.pad,
    )  # fmt: skip


class _WeightedChunks(Chunks):
    """Chunks whose losses and errors have a factor for each position."""

    def __init__(self, *arguments, factor: Tensor) -> None:
        super().__init__(*arguments)
        self.factor, self.part_factor = factor[:, None].to(self.exact), None
        self.is_fused = False  # the compiled function has no such factor

    def _block_errors(self, rows: Tensor, product: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        self.part_factor = self.factor[rows]
        return super()._block_errors(rows, product)

    def _weighted(self, values: Tensor, column: Tensor) -> Tensor:
        return super()._weighted(values, column).mul_(self.part_factor)

    def _gated(self, error: Tensor, column: Tensor) -> Tensor:
        """Gate a copy where there is a bias: its gradient is summed from the same error afterwards, without the gate."""
        return super()._gated(error if self.grad_bias is None else error.clone(), column)


class _Weighted(_Gated):
    @staticmethod
    def forward(ctx, hidden, weight, offset, bias, targets, terms, chunk, factor):  # type: ignore[override]
        work = _WeightedChunks(hidden, weight, targets, terms, any(ctx.needs_input_grad[:4]), chunk, factor=factor)
        with torch.autocast(hidden.device.type, enabled=False):
            work.walk()
        ctx.gradients = work.grad_hidden, work.grad_weight, work.grad_offset, work.grad_bias
        ctx.types = [None if value is None else value.dtype for value in (hidden, weight, offset, bias)]
        ctx.mark_non_differentiable(work.nll)
        return work.loss, work.nll

    @staticmethod
    def backward(ctx, *gradients):  # type: ignore[override]
        return (*_Gated.backward(ctx, *gradients), None)
