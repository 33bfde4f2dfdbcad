"""Gated cross-entropy of a vocabulary that is sharded over processes.

Each process has its own positions and its own rows of the output embedding. In each round, the processes gather a chunk of all
positions, and each process computes the logits of its own rows. For each position they exchange the maximum, the sum of the
exponentials, and the logit of the target. The gradient of the own rows is then complete. The gradients of the hidden states are
summed over the processes. No process has the whole matrix or its gradient.

The formulas are those of gated_cross_entropy.py and chunks.py.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from raretokens.errors import UserError
from raretokens.loop.row_shard import RowShard, is_sharded
from raretokens.loss.chunks import _apply
from raretokens.loss.gated_cross_entropy import CHUNK, CHUNK_CUDA, check_targets
from raretokens.loss.objective import Objective
from raretokens.loss.position_weight import loss_of_its_own
from raretokens.loss.terms import PLAIN, SMALLEST, Candidates, Gate, Head, SummedLoss, Unlikelihood

# Names since torch 2.13, and before.
ALL_GATHER = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
REDUCE_SCATTER = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor


class _Terms(NamedTuple):
    """Terms of the loss, for positions of all processes and the own rows."""

    gate: Gate | None
    head: Head  # with the own entries of the bias
    token_weight: Tensor | None  # N
    unlikelihood: Unlikelihood | None
    smoothing: float
    z_loss: float


class _Round(NamedTuple):
    """Positions of all processes: R = processes x positions of each."""

    hidden: Tensor  # R x d
    column: Tensor  # R x 1: targets
    is_real: Tensor  # R x 1: 0 where a process has no more positions
    candidates: Tensor | None  # R x L: ids of unlikelihood, -1 where there is none


def needs_whole_matrix(objective: Objective) -> list[str]:
    """Return the methods of the objective whose loss needs the whole embedding matrix."""
    own = type(objective)
    needs = [name for name in ("target_offset", "input_term") if getattr(own, name) is not getattr(Objective, name)]
    return needs + loss_of_its_own(objective)


def check_objective(objective: Objective, shard: RowShard) -> None:
    """Raise UserError if the objective's loss needs the whole embedding matrix, or a process has no rows."""
    if needs := needs_whole_matrix(objective):
        raise UserError(f"vocabulary_parallel is not allowed: {needs[0]} of {objective.name} needs the whole embedding matrix")
    check_rows(shard)


def check_rows(shard: RowShard) -> None:
    """Raise UserError if a process has no rows."""
    rows = shard.matrix.shape[0]
    if -(-rows // shard.processes) * (shard.processes - 1) >= rows:
        raise UserError(f"vocabulary_parallel is not allowed: {rows} rows leave some of {shard.processes} processes without rows")


def sharded_loss(objective: Objective, hidden: Tensor, shard: RowShard, targets: Tensor, head: Head = PLAIN) -> SummedLoss:
    """Return the summed loss of this process' micro-batch, as `Objective.loss`. All processes must call this together.

    Without gradients, the loss is the plain likelihood.

    Args:
        objective: one that `check_objective` allows.
        hidden: sequences x positions x d, of this process.
        shard: the output embedding.
        targets: sequences x positions, of this process.
        head: bias, scale or soft-cap of the logits. A bias is sharded as the embedding matrix, or is not trained.
    """
    facts = objective.facts
    plain = {"head": head, "label_smoothing": facts.label_smoothing, "ignore_index": facts.pad}
    if not torch.is_grad_enabled():
        return sharded_cross_entropy(hidden, shard, targets, **plain)
    summed = sharded_cross_entropy(
        hidden,
        shard,
        targets,
        gate=objective.gate(),
        z_loss=objective.z_loss(),
        token_weight=objective.token_weight(),
        unlikelihood=objective.unlikelihood(),
        **plain,
    )
    term = objective.hidden_term(hidden, targets)
    return summed if term is None else SummedLoss(summed.loss + term, summed.nll)


@torch.no_grad()
def sharded_nll(hidden: Tensor, shard: RowShard, targets: Tensor, head: Head = PLAIN, ignore_index: int = -100) -> Tensor:
    """Return -log p (natural logarithm) of each target of this process, in the shape of `targets`; 0 where it is ignored.

    All processes must call this together. The arguments are those of `sharded_cross_entropy`.
    """
    kept = targets != ignore_index
    check_targets(targets[kept], shard.matrix.shape[0])
    terms = _Terms(None, head._replace(bias=_own_bias(head.bias, shard)), None, None, 0.0, 0.0)
    work = _Rounds(hidden[kept], shard.own(), targets[kept], terms, None, shard, wants_gradient=False)
    with torch.autocast(hidden.device.type, enabled=False):
        work.walk(_chunk(hidden, shard))
    nll = torch.zeros(targets.shape, dtype=work.nll.dtype, device=targets.device)
    nll[kept] = work.nll
    return nll


def sharded_cross_entropy(
    hidden: Tensor,
    shard: RowShard,
    targets: Tensor,
    *,
    gate: Gate | None = None,
    head: Head = PLAIN,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    token_weight: Tensor | None = None,
    unlikelihood: Unlikelihood | None = None,
    ignore_index: int = -100,
) -> SummedLoss:
    """Return the sum of cross-entropies of this process' positions, as `gated_linear_cross_entropy` of the whole matrix.

    All processes must call this together, and multiply the losses by the same factor before the backward pass. The rows get the
    mean over processes of the gradients, as FSDP2 gives it to the other weights.

    Args:
        shard: the output embedding.

    The other arguments are those of `gated_linear_cross_entropy`, with gate and token_weight of all N types.

    Raises:
        UserError: if the head has a trained bias that is not sharded.
        IndexError: if a target lies outside 0..N-1.
    """
    head = head._replace(bias=_own_bias(head.bias, shard))
    candidates = None if unlikelihood is None else Candidates(unlikelihood, targets, ignore_index)
    hidden, targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    kept = targets != ignore_index
    hidden, targets = hidden[kept], targets[kept]
    candidates = None if candidates is None else candidates.keep(kept)
    check_targets(targets, shard.matrix.shape[0])
    terms = _Terms(gate, head, token_weight, unlikelihood, label_smoothing, z_loss)
    return SummedLoss(*_Sharded.apply(hidden, shard.own(), head.bias, targets, terms, candidates, shard))


def _chunk(hidden: Tensor, shard: RowShard) -> int:
    """Return the number of positions of each process in a round."""
    return max((CHUNK_CUDA if hidden.is_cuda else CHUNK) // shard.processes, 1)


def _own_bias(bias: Any, shard: RowShard) -> Tensor | None:
    if bias is None:
        return None
    if is_sharded(bias):
        return RowShard(bias).own()
    if bias.requires_grad:
        raise UserError("the bias of the output embedding is trained and not sharded: should be sharded as the embedding matrix")
    return bias[shard.start : shard.stop]


class _Sharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, terms, candidates, shard):  # type: ignore[override]
        work = _Rounds(hidden, weight, targets, terms, candidates, shard, any(ctx.needs_input_grad[:3]))
        with torch.autocast(hidden.device.type, enabled=False):
            work.walk(_chunk(hidden, shard))
        ctx.gradients = work.grad_hidden, work.grad_weight, work.grad_bias
        ctx.types, ctx.processes = [None if value is None else value.dtype for value in (hidden, weight, bias)], shard.processes
        nll = work.nll.sum()
        ctx.mark_non_differentiable(nll)
        return work.loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss, _grad_nll):  # type: ignore[override]
        factors = grad_loss, grad_loss / ctx.processes, grad_loss / ctx.processes
        pairs = zip(ctx.gradients, factors, ctx.types, strict=True)
        scaled = [None if gradient is None else (gradient * factor).to(dtype) for gradient, factor, dtype in pairs]
        return (*scaled, None, None, None, None)


class _Rounds:
    """Sums and gradients, filled round by round."""

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        terms: _Terms,
        candidates: Candidates | None,
        shard: RowShard,
        wants_gradient: bool,
    ) -> None:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        self.exact = torch.promote_types(dtype, torch.float32)  # dtype of sums
        self.hidden, self.weight = hidden.detach().to(dtype), weight.detach().to(dtype)
        self.targets, self.terms, self.candidates, self.shard = targets, terms, candidates, shard
        self.types = shard.matrix.shape[0]
        self.loss = torch.zeros((), dtype=self.exact, device=hidden.device)
        self.nll = self.loss.new_zeros(len(targets))  # of each position of this process
        self.grad_hidden = self.grad_weight = self.grad_bias = None
        if wants_gradient:
            self.products = self.exact if dtype == torch.float16 else dtype  # dtype of gradient products, as in Chunks
            self.right = weight.detach().to(self.products)
            self.grad_hidden = torch.zeros_like(self.hidden, dtype=self.exact)
            self.grad_weight = torch.zeros_like(weight, dtype=self.exact)
            self.grad_bias = None if terms.head.bias is None else torch.zeros_like(terms.head.bias, dtype=self.exact)

    def walk(self, size: int) -> None:
        """Process all positions, at most `size` of each process in a round."""
        longest = 0 if self.candidates is None else self.candidates.sequences.shape[1]
        most = torch.tensor([len(self.targets), longest], device=self.targets.device)
        distributed.all_reduce(most, distributed.ReduceOp.MAX, group=self.shard.group)
        positions, length = most.tolist()
        own = torch.arange(len(self.targets), device=self.targets.device)
        for start in range(0, positions, size):
            rows = own[start : start + size]  # none in the last rounds of a process with fewer targets than another
            self._round(rows, min(size, positions - start), length)

    def _round(self, rows: Tensor, size: int, length: int) -> None:
        """Add one round; rows: the positions of this process, at most `size`; length: of the longest sequence of candidates."""
        chunk = self._gather(rows, size, length)
        loss, nll, error = self._errors(chunk)
        first = distributed.get_rank(self.shard.group) * size
        self.loss += loss[first : first + size].sum()
        self.nll[rows] = nll[first : first + len(rows), 0]
        if error is None:
            return
        if self.grad_bias is not None:
            self.grad_bias += error.sum(0)
        part = (error.to(self.products) @ self.right).to(self.exact)
        own = part.new_empty(size, part.shape[1])
        REDUCE_SCATTER(own, part, group=self.shard.group)
        self.grad_hidden[rows] = own[: len(rows)]
        self.grad_weight += self._gated(error, chunk.column).to(self.products).T @ chunk.hidden.to(self.products)

    def _gather(self, rows: Tensor, size: int, length: int) -> _Round:
        column = self._all(self.targets[rows], size, -1)[:, None]
        candidates = None
        if self.candidates is not None:
            ids, chosen = self.candidates.of(rows, self.targets[rows, None])
            padded = ids.new_full((len(rows), length), -1)
            padded[:, : ids.shape[1]] = ids.masked_fill(~chosen, -1)
            candidates = self._all(padded, size, -1)
        is_real = column >= 0
        return _Round(self._all(self.hidden[rows], size, 0), column.clamp(min=0), is_real.to(self.exact), candidates)

    def _all(self, part: Tensor, size: int, fill: int) -> Tensor:
        """Return the rows of all processes, `size` of each, filled up where a process has fewer."""
        padded = part.new_full((size, *part.shape[1:]), fill)
        padded[: len(part)] = part
        gathered = part.new_empty((size * self.shard.processes, *part.shape[1:]))
        ALL_GATHER(gathered, padded, group=self.shard.group)
        return gathered

    def _mine(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the indices of ids among the own rows (0 for others), and whether they are own rows."""
        is_mine = (ids >= self.shard.start) & (ids < self.shard.stop)
        return (ids - self.shard.start).masked_fill(~is_mine, 0), is_mine

    def _errors(self, chunk: _Round) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return loss and NLL of each position, and the loss's gradient in hidden embedding^T of the own rows."""
        eps, wants_gradient = self.terms.smoothing, self.grad_weight is not None
        logits = (chunk.hidden @ self.weight.T).to(self.exact)
        slope = _apply(self.terms.head, logits, wants_gradient)
        index, is_mine = self._mine(chunk.column)
        top = logits.amax(1, keepdim=True)
        distributed.all_reduce(top, distributed.ReduceOp.MAX, group=self.shard.group)
        wanted = logits.gather(1, index) * is_mine
        total = logits.sum(1, keepdim=True) if eps else torch.zeros_like(top)
        error = logits.sub_(top).exp_()
        sums = torch.cat((error.sum(1, keepdim=True), wanted, total), dim=1)
        distributed.all_reduce(sums, group=self.shard.group)
        exponentials, wanted, total = sums.split(1, dim=1)
        normaliser = top + exponentials.log()
        error.div_(exponentials)
        nll = normaliser - wanted
        loss = (1 - eps) * nll + eps * (normaliser - total / self.types)
        share = 1.0
        if self.terms.z_loss:
            loss = loss + self.terms.z_loss * normaliser.square()
            share = 1.0 + 2.0 * self.terms.z_loss * normaliser
        if chunk.candidates is None:
            error.mul_(share)
        else:
            loss = loss + self._unlikelihood(error, chunk.candidates, share)
        factor = chunk.is_real
        if self.terms.token_weight is not None:
            factor = factor * self.terms.token_weight.detach()[chunk.column].to(self.exact)
        nll, loss = nll * chunk.is_real, loss * factor
        if not wants_gradient:
            return loss, nll, None
        error.sub_(eps / self.types).scatter_add_(1, index, -(1 - eps) * is_mine.to(self.exact)).mul_(factor)
        return loss, nll, error if slope is None else error.mul_(slope)

    def _unlikelihood(self, softmax: Tensor, candidates: Tensor, share: Tensor | float) -> Tensor:
        """Return unlikelihood's loss, and write share * softmax + its gradient over the softmax, as `Candidates.apply`."""
        alpha = self.terms.unlikelihood.alpha
        index, is_mine = self._mine(candidates)
        p = softmax.gather(1, index) * is_mine
        distributed.all_reduce(p, group=self.shard.group)
        rest = 1.0 - p
        ratio = torch.where((candidates >= 0) & (rest > SMALLEST), p / rest, 0.0)
        softmax.mul_(share - alpha * ratio.sum(1, keepdim=True)).scatter_add_(1, index, alpha * ratio * is_mine)
        return alpha * torch.where(candidates >= 0, -rest.clamp(min=SMALLEST).log(), 0.0).sum(1, keepdim=True)

    def _gated(self, error: Tensor, column: Tensor) -> Tensor:
        """Return the error under the gate: B at positions with a rare target, A at the others, 1 at the target."""
        if self.terms.gate is None:
            return error
        rare, towards_nonrare, towards_rare = self.terms.gate
        rows = slice(self.shard.start, self.shard.stop)
        index, is_mine = self._mine(column)
        factors = torch.where(rare[column], towards_rare[rows].to(error.dtype), towards_nonrare[rows].to(error.dtype))
        at_target = torch.where(is_mine, 1.0, factors.gather(1, index))  # column 0 keeps its factor where the target is elsewhere
        return error * factors.scatter(1, index, at_target)
