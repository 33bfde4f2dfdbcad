"""Chunked computation of the gated cross-entropy and its gradients.

The gradients are computed in the forward pass, in buffers of one chunk, so no positions x vocabulary matrix ever exists.
On a CPU, positions whose target is not rare come first. They share one gate vector A, which multiplies the finished N x d sum
once. The few positions with a rare target follow and are gated entry by entry. They share chunks with the other positions,
because matrix products of a few rows are slow. Types at the end of the vocabulary with A = 0 have no product with the first
positions.

On a GPU, the host does not know how many targets are rare, and would have to wait for the number. All positions are therefore
gated entry by entry, in their own order. One compiled function does all that lies between the matrix products, where it has all
terms of the loss and the compiler works. Its bytes are counted, and benchmarks/card-cuda.csv has its time on an H200.
"""

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from raretokens.loss.terms import PLAIN, Gate, Head, Terms

BLOCK_BYTES = 2**21  # of logits in the dtype of sums, for each thread; near the size of a core's cache
COLUMNS = 64  # multiple of the columns that a product computes together
RECOMPILE_LIMIT = 64  # of the compiled function: sets of terms, dtypes and options of all objectives in one process
FUSED = True  # whether a GPU runs the compiled function; false after its compiler failed


class Chunks:
    """Sums and gradients of M positions over N types, filled chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, targets: Tensor, terms: Terms, wants_gradient: bool, chunk: int) -> None:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        exact = torch.promote_types(dtype, torch.float32)  # dtype of sums: float32, or float64 for float64 input
        self.hidden, self.weight = hidden.detach().to(dtype), weight.detach().to(dtype)
        self.targets, self.terms, self.exact, self.chunk = targets, terms, exact, chunk
        self.loss = torch.zeros((), dtype=exact, device=hidden.device)
        self.nll = torch.zeros_like(self.loss)
        self.product = torch.empty((min(chunk, len(hidden)), len(weight)), dtype=dtype, device=hidden.device)
        self.block = self._block()
        self.logits = None  # of a block in the dtype of sums, where that of products differs
        self.grad_hidden = self.grad_weight = self.grad_offset = self.grad_bias = None
        if wants_gradient:
            is_half = dtype == torch.float16  # its range is too small for gradients
            self.left = self.hidden.to(exact) if is_half else self.hidden  # factors of the gradient products
            self.right = weight.detach().to(exact) if is_half else self.weight
            self.grad_hidden = torch.empty_like(self.left)
            self.grad_weight = torch.zeros_like(weight, dtype=exact)
            # A product of low precision is added to the sum from one buffer, because new memory costs a CPU a tenth of the pass.
            self.part = None if self.left.dtype == exact else torch.empty_like(weight, dtype=self.left.dtype)
            self.grad_offset = None if terms.offset is None else torch.empty_like(terms.offset, dtype=exact)
            self.grad_bias = None if terms.head.bias is None else torch.zeros_like(terms.head.bias, dtype=exact)
        self.columns = self._columns()
        is_plain = terms.head == PLAIN and terms.offset is None and terms.candidates is None  # the compiled function has no more
        self.is_fused = wants_gradient and FUSED and _is_gpu(hidden) and dtype != torch.float16 and is_plain

    def walk(self) -> None:
        """Process all positions, on a CPU those with a rare target last. A chunk may contain both kinds of positions."""
        order, first_rare = self._order()
        for start in range(0, len(order), self.chunk):
            rows = order[start : start + self.chunk]
            if not (self.is_fused and self._fused_chunk(rows)):
                self._chunk(rows, first_rare - start)

    def _block(self) -> int:
        """Return the number of positions whose logits are converted to the dtype of sums together.

        In bfloat16 on a CPU, its cache holds them until their errors are converted back. A bias has a sum over the chunk.
        """
        if self.product.dtype != torch.bfloat16 or _is_gpu(self.hidden) or self.terms.head.bias is not None:
            return self.chunk
        return max(torch.get_num_threads() * BLOCK_BYTES // (len(self.weight) * self.exact.itemsize), 1)

    def _columns(self) -> int:
        """Return the number of types, from the first, that get a gradient from positions whose target is not rare.

        The number is rounded up. A product computes its last columns by other instructions, which may round otherwise.
        """
        if self.terms.gate is None or _is_gpu(self.weight):
            return len(self.weight)
        open_types = self.terms.gate.nonrare_targets.nonzero()
        last = int(open_types[-1]) if len(open_types) else 0
        return min((last // COLUMNS + 1) * COLUMNS, len(self.weight))

    def _order(self) -> tuple[Tensor, int]:
        """Return the positions in processing order, and the index of the first position with a rare target."""
        if self.terms.gate is None or _is_gpu(self.targets):
            return torch.arange(len(self.targets), device=self.targets.device), len(self.targets)
        rare = self.terms.gate.rare[self.targets]
        others = (~rare).nonzero().squeeze(1)
        return torch.cat((others, rare.nonzero().squeeze(1))), len(others)

    def _chunk(self, rows: Tensor, first_rare: int) -> None:
        """Add one chunk to loss and gradients; rows: its positions; first_rare: as in `_table_gradient`."""
        product = torch.mm(self.hidden[rows], self.weight.T, out=self.product[: len(rows)])
        losses, nlls, gated = [], [], []
        for start in range(0, len(rows), self.block):
            part, low = rows[start : start + self.block], product[start : start + self.block]
            loss, nll, error = self._block_errors(part, low)
            losses.append(loss)
            nlls.append(nll)
            if error is not None and self.left.dtype != error.dtype:
                # The one-hot is subtracted in float32 before the cast: in bfloat16 the difference would vanish where p is near 1.
                low.copy_(error)
                rare = slice(max(first_rare - start, 0), None)
                if not _is_gpu(error) and self.terms.gate is not None:
                    gated.append(self._gated(error[rare], self.targets[part[rare], None]).to(low.dtype))
        self.nll += torch.cat(nlls).sum()
        self.loss += torch.cat(losses).sum()
        if error is not None:
            low = error if product.dtype == torch.float16 else product
            self._gradients(rows, error, low, gated, first_rare)

    def _block_errors(self, rows: Tensor, product: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return loss, NLL and the loss's gradient in hidden embedding^T of the positions `rows`, without a gate.

        product: their part of hidden embedding^T. The gradient is written over it where both have the same dtype. It is None
        where nothing needs it.
        """
        column, terms = self.targets[rows, None], self.terms
        logits, slope = self._logits(product)
        plain = None
        if terms.offset is not None:
            plain = _logsumexp(logits) - logits.gather(1, column)
            logits.scatter_add_(1, column, terms.offset[rows, None].detach().to(self.exact))
        wanted, eps = logits.gather(1, column), terms.smoothing
        mean = logits.mean(1, keepdim=True) if eps else 0.0
        is_loss_alone = self.grad_weight is None and terms.candidates is None
        error, normaliser = (logits, _logsumexp(logits)) if is_loss_alone else _softmax(logits)
        nll = normaliser - wanted
        loss = (1 - eps) * nll + eps * (normaliser - mean) if eps else nll
        if terms.z_loss:
            loss = loss + terms.z_loss * normaliser.square()
        nll = nll if plain is None else plain
        if is_loss_alone:
            return self._weighted(loss.clone(), column), nll, None
        share = 1.0 + 2.0 * terms.z_loss * normaliser if terms.z_loss else 1.0
        if terms.candidates is not None:
            extra, error = terms.candidates.apply(error, rows, column, share)
            loss = loss + extra
        elif terms.z_loss:
            error.mul_(share)
        loss = self._weighted(loss.clone(), column)
        if self.grad_weight is None:
            return loss, nll, None
        error = self._less_target(error, column)
        if self.grad_offset is not None:
            self.grad_offset[rows] = error.gather(1, column).squeeze(1)
        if slope is not None:
            error.mul_(slope)
        return loss, nll, error

    def _fused_chunk(self, rows: Tensor) -> bool:
        """Add one chunk to loss and gradients, with one compiled function between the matrix products.

        Return whether that worked. Where the compiler fails, nothing is added, and the function is not tried again.
        """
        terms, hidden = self.terms, self.left[rows]
        product = torch.mm(hidden, self.weight.T, out=self.product[: len(rows)])
        column = self.targets[rows, None]
        try:
            loss, nll, gated = _compiled()(
                product, column, terms.gate, terms.token_weight, terms.smoothing, terms.z_loss, self.exact
            )
        except (torch.OutOfMemoryError, torch.AcceleratorError):
            raise
        except Exception as error:  # torch's compiler and Triton raise many types
            self.is_fused = False
            if not is_in_torch_dispatch_mode():  # torch compiles nothing while a dispatch mode, such as a counter, is active
                _stop_fusing(error)
            return False
        self.loss += loss
        self.nll += nll
        self.grad_hidden[rows] = product @ self.right
        self._add(gated, hidden)
        return True

    def _logits(self, product: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits (rows x N) and their derivative in hidden embedding^T, or None if that is 1 everywhere."""
        logits = product
        if product.dtype != self.exact:
            if self.logits is None:
                self.logits = torch.empty_like(product, dtype=self.exact)
            logits = self.logits[: len(product)].copy_(product)
        return logits, _apply(self.terms.head, logits, self.grad_weight is not None)

    def _weighted(self, values: Tensor, column: Tensor) -> Tensor:
        weight = self.terms.token_weight
        return values if weight is None else values.mul_(weight.detach()[column].to(self.exact))

    def _less_target(self, error: Tensor, column: Tensor) -> Tensor:
        eps = self.terms.smoothing
        if eps:
            error.sub_(eps / error.shape[1])
        error.scatter_add_(1, column, torch.full_like(column, -(1 - eps), dtype=error.dtype))
        return self._weighted(error, column)

    def _gradients(self, rows: Tensor, error: Tensor, low: Tensor, gated: list[Tensor], first_rare: int) -> None:
        """Add the gradients of a chunk.

        Args:
            rows: its positions.
            error: as `_block_errors` returns it for the last block.
            low: the errors of all blocks, in the dtype of the products.
            gated: the gated errors of positions with a rare target, where they are computed already.
            first_rare: as in `_table_gradient`.
        """
        if self.grad_bias is not None:
            self.grad_bias += error.sum(0)
        hidden = self.left[rows]
        self.grad_hidden[rows] = low @ self.right
        self._table_gradient(hidden, self.targets[rows, None], error, low, gated, first_rare)

    def _table_gradient(
        self, hidden: Tensor, column: Tensor, error: Tensor, low: Tensor, gated: list[Tensor], first_rare: int
    ) -> None:
        """Add a chunk to the gradient of the embedding matrix; its arguments are those of `_gradients`.

        first_rare: index of the first rare target of all positions, relative to this chunk. The target may lie in another chunk.
        """
        if self.terms.gate is not None and _is_gpu(error):
            self._add(self._gated_entries(column, error, low), hidden)
            return
        size = len(hidden)
        split = min(max(first_rare, 0), size)
        self._add(low[:split, : self.columns], hidden[:split])
        if 0 < first_rare <= size and self.terms.gate is not None:  # the sum over positions without a rare target is complete
            self.grad_weight.mul_(self.terms.gate.nonrare_targets[:, None].to(self.exact))
        if split < size:
            self._add(torch.cat(gated) if gated else self._gated(low[split:], column[split:]), hidden[split:])

    def _gated(self, error: Tensor, column: Tensor) -> Tensor:
        """Multiply the error of positions with a rare target by B, except at the target, in place."""
        own = error.gather(1, column)
        return error.mul_(self.terms.gate.rare_targets.to(error.dtype)).scatter_(1, column, own)

    def _gated_entries(self, column: Tensor, error: Tensor, low: Tensor) -> Tensor:
        """Multiply the error by B in rows with a rare target and by A in the other rows, except at the target.

        The result is written over low, the error in the dtype of the products.
        """
        rare, towards_nonrare, towards_rare = self.terms.gate
        factors = torch.where(rare[column], towards_rare.to(error.dtype), towards_nonrare.to(error.dtype))
        own = low.gather(1, column)
        return torch.mul(error, factors, out=low).scatter_(1, column, own)

    def _add(self, error: Tensor, hidden: Tensor) -> None:
        """Add error^T hidden to the rows of the sum that error has columns for."""
        types = error.shape[1]
        if self.part is None:
            self.grad_weight[:types].addmm_(error.T, hidden)
        elif len(error):
            product = torch.mm(error.T, hidden, out=self.part[:types])
            # The sum converts its summand to float32, in new memory. A CPU has that of a few rows in its cache.
            rows = types if _is_gpu(error) else max(BLOCK_BYTES // (product.shape[1] * 4), 1)
            for total, part in zip(self.grad_weight[:types].split(rows), product.split(rows), strict=True):
                total += part


@cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    try:
        return torch.compile(_errors, fullgraph=True, recompile_limit=RECOMPILE_LIMIT)
    except TypeError:  # torch 2.11 has the limit only as a setting
        limited = torch._dynamo.config.patch(recompile_limit=RECOMPILE_LIMIT)
        return limited(torch.compile(_errors, fullgraph=True))


def _stop_fusing(error: Exception) -> None:
    global FUSED
    FUSED = False
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    warnings.warn(f"the loss runs without its compiled function, with more memory traffic: {reason}", stacklevel=2)


def _errors(
    product: Tensor,
    column: Tensor,
    gate: Gate | None,
    token_weight: Tensor | None,
    smoothing: float,
    z_loss: float,
    exact: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Replace the logits by the loss's gradient in them; return the sums of loss and NLL, and the gated gradient.

    Compiled, this function reads the logits twice and writes them once, or twice with a gate. A compiler that finds maximum
    and sum separately reads them once more.

    Args:
        product: logits, rows x N, in the dtype of the matrix products.
        column: targets, rows x 1.
        gate, token_weight, smoothing, z_loss: as in Terms.
        exact: dtype of sums.
    """
    logits = product.to(exact)
    types = logits.shape[1]
    normaliser = logits.logsumexp(1, keepdim=True)
    nll = loss = normaliser - logits.gather(1, column)
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (normaliser - logits.mean(1, keepdim=True))
    is_target = torch.arange(types, device=column.device) == column
    error = (logits - normaliser).exp()
    if z_loss:
        loss = loss + z_loss * normaliser.square()
        error = error * (1.0 + 2.0 * z_loss * normaliser)
    error = error - smoothing / types - (1 - smoothing) * is_target.to(exact)
    if token_weight is not None:
        factor = token_weight.detach()[column].to(exact)
        loss, error = loss * factor, error * factor
    gated = product
    if gate is not None:
        factors = torch.where(gate.rare[column], gate.rare_targets, gate.nonrare_targets).to(exact)
        gated = (error * torch.where(is_target, 1.0, factors)).to(product.dtype)
    product.copy_(error)
    return loss.sum(), nll.sum(), gated


def _apply(head: Head, logits: Tensor, wants_slope: bool) -> Tensor | None:
    """Apply the head to hidden embedding^T in place. Return its derivative (rows x N or rows x 1), or None if that is 1."""
    if head.bias is not None:
        logits += head.bias.detach().to(logits.dtype)
    if head.scale != 1.0:
        logits *= head.scale
    if head.softcap is None:
        return torch.full_like(logits[:, :1], head.scale) if head.scale != 1.0 and wants_slope else None
    logits.div_(head.softcap).tanh_()
    slope = logits.square().neg_().add_(1.0).mul_(head.scale) if wants_slope else None
    logits *= head.softcap
    return slope


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax, computed in place of the logits, and the logarithm of each row's normaliser (rows x 1).

    With top as the highest logit of a row and p as the highest probability, the normaliser is top - log p. In torch's kernels
    each number is read before its place is written, and the maximum of a row has the probability exp(0) / sum.
    """
    if _is_gpu(logits):  # one pass less
        top, index = logits.max(1, keepdim=True)
        torch.softmax(logits, 1, out=logits)
        return logits, top - logits.gather(1, index).log()
    top = logits.amax(1, keepdim=True)  # on a CPU, two of these take less time than one maximum with indices
    torch.softmax(logits, 1, out=logits)
    return logits, top - logits.amax(1, keepdim=True).log()


def _is_gpu(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu"


def _logsumexp(logits: Tensor) -> Tensor:
    """Return the logsumexp of each row (rows x 1), in parts, because torch.logsumexp allocates another matrix like the logits."""
    return torch.cat([part.logsumexp(1, keepdim=True) for part in logits.split(max(len(logits) // 8, 64))])
