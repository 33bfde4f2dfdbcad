"""Time and memory of the loss alone, forward and backward: ours beside plain, compiled, chunked and published constructions.

    python benchmarks/loss.py [--shapes 2048x8192x512,...] [--dtype bfloat16] [--out benchmarks/loss-cpu.csv]

In each round every method runs one pass or more, in turn with the others. A ratio is the median over passes of the same turn. The
denominators are `products` (time_to_floor), the fastest method of COMPETITORS (time_to_fastest), `plain`, `compiled` and
`ungated`. Seconds are the median, of the processor on a CPU and of the device on a GPU. A pass before them, with compilation,
does not count. In bfloat16, the only choice on a GPU, the embedding matrix and sums are float32. Memory is the peak above the
inputs of one pass, in a process of its own. Rows of shapes that are not measured stay in the file.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from statistics import median
from unittest.mock import patch

import torch
from measuring import apart, clock, machine, parser, peak_bytes, reset_peak
from records import keep
from torch import Tensor
from torch.nn import functional as F

from raretokens.loss import chunks
from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import Gate

# positions x vocabulary x width: vocabularies of 8 thousand, of AGG's WikiText-103 in pieces, and of that text in whole words.
SHAPES = {
    "cpu": "2048x8192x512,8192x8192x512,2048x8192x1024,2048x44256x512,8192x44256x512,2048x44256x1024,1024x267736x512",
    "cuda": "8192x8192x1024,32768x8192x1024,8192x44256x512,8192x44256x1024,32768x44256x1024,8192x267736x1024",
}
RARE_SHARE = 0.2  # of the types; their targets are about 2 % of the positions
COMPETITORS = ("plain", "compiled", "builtin", "builtin_chunked", "chunked", "liger", "cce")
RATIOS = {  # column: the method of the denominator
    "time_to_plain": "plain", "memory_to_plain": "plain", "time_to_floor": "products", "time_to_fastest": "fastest",
    "time_to_compiled": "compiled", "time_to_ungated": "ungated", "memory_to_ungated": "ungated",
}  # fmt: skip
FLOOR_CHUNK = 1024  # positions
WORK = 8e10  # products of a pass; a bigger one is not repeated within a round


def inputs(m: int, n: int, d: int, device: str, dtype: str) -> tuple[Tensor, Tensor, Tensor, Gate]:
    torch.manual_seed(0)
    hidden = torch.randn(m, d, device=device, dtype=getattr(torch, dtype), requires_grad=True)
    weight = (torch.randn(n, d, device=device) * d**-0.5).requires_grad_()
    targets = (torch.rand(m, device=device) ** 6 * n).long()  # falling frequency
    rare = torch.arange(n, device=device) >= n * (1 - RARE_SHARE)
    gates = torch.where(rare, torch.rand(n, device=device), 1.0)
    return hidden, weight, targets, Gate(rare, gates, gates.sqrt())


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight.to(hidden.dtype)).float(), targets, reduction="sum")


@cache
def _compiled_plain() -> Callable[..., Tensor]:
    return torch.compile(plain)  # in the process that needs it: the compiler's import takes seconds


def compiled(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    return _compiled_plain()(hidden, weight, targets, gate)


def builtin(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    """torch's own without options, which makes all logits."""
    return F.linear_cross_entropy(hidden, weight.to(hidden.dtype), targets, reduction="sum")


def builtin_chunked(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    """torch's own with its defaults for chunks, gradients in the forward pass."""
    options = torch.nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(hidden, weight.to(hidden.dtype), targets, reduction="sum", options=options)


def ungated(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=hidden.dtype == torch.bfloat16):
        return gated_linear_cross_entropy(hidden, weight, targets).loss


def gated_eager(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    """Ours without the compiled function between the products, which a CPU never has."""
    if not hidden.is_cuda:
        sys.exit("gated_eager is for a GPU; a CPU never compiles the chunk body")
    with patch.object(chunks, "FUSED", False):
        return gated(hidden, weight, targets, gate)


def gated(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=hidden.dtype == torch.bfloat16):
        return gated_linear_cross_entropy(hidden, weight, targets, gate=gate).loss


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets):  # type: ignore[override]
        (m, d), n = hidden.shape, len(weight)
        rows = 1 << (-(-m // -(-n // d)) - 1).bit_length()  # m over n / d parts, up to a power of two
        table, total = weight.to(hidden.dtype), 0.0
        ctx.hidden, ctx.weight = torch.empty_like(hidden), torch.zeros_like(weight)
        for part in range(0, m, rows):
            here = slice(part, part + rows)
            with torch.enable_grad():
                logits = F.linear(hidden[here].detach(), table.detach()).requires_grad_()
                loss = F.cross_entropy(logits.float(), targets[here], reduction="sum")
            (error,) = torch.autograd.grad(loss, logits)
            ctx.hidden[here] = error @ table
            ctx.weight += error.T @ hidden[here]
            total += loss.detach()
        return total

    @staticmethod
    def backward(ctx, grad):  # type: ignore[override]
        return ctx.hidden * grad, ctx.weight * grad, None


def chunked(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    """The construction of Liger-Kernel in plain torch: its size of a chunk, gradients in the forward pass, no gate."""
    return _Chunked.apply(hidden, weight, targets)


def three_logits(hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Tensor:
    """The construction of AGG's Eq. 9 and 10: one ungated term for the states, two gated ones for the table."""
    weight = weight.to(hidden.dtype)
    column, is_rare = targets[:, None], gate.rare[targets]
    own = torch.zeros(len(targets), len(weight), device=hidden.device).scatter_(1, column, 1.0)
    loss = F.cross_entropy(F.linear(hidden, weight.detach()).float(), targets, reduction="sum")
    for vector, rows in ((gate.nonrare_targets, ~is_rare), (gate.rare_targets, is_rare)):
        entries = torch.where(own.bool(), 1.0, vector)
        through = F.linear(hidden.detach(), weight).float()
        mixed = entries * through + (1 - entries) * through.detach()
        loss = loss + (F.cross_entropy(mixed, targets, reduction="none") * rows).sum()
    return loss


def liger(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ModuleNotFoundError:
        sys.exit("liger_kernel is not installed")  # it is optional
    if not hidden.is_cuda:
        sys.exit("liger_kernel runs on a GPU only")
    return LigerFusedLinearCrossEntropyLoss(reduction="sum")(weight.to(hidden.dtype), hidden, targets)


def cce(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    """Cut Cross-Entropy: its kernels for a GPU; its variant for torch.compile on a CPU."""
    try:
        from cut_cross_entropy import linear_cross_entropy
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed")  # it is optional
    kind = "cce" if hidden.is_cuda else "torch_compile"
    return linear_cross_entropy(hidden, weight.to(hidden.dtype), targets, reduction="sum", impl=kind)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight):  # type: ignore[override]
        low = weight.to(hidden.dtype)
        ctx.hidden, ctx.weight = torch.empty_like(hidden), torch.empty_like(low)
        buffer = hidden.new_empty(min(FLOOR_CHUNK, len(hidden)), len(low))
        for rows, into in zip(hidden.split(FLOOR_CHUNK), ctx.hidden.split(FLOOR_CHUNK), strict=True):
            logits = torch.mm(rows, low.T, out=buffer[: len(rows)])
            torch.mm(logits, low, out=into)
            torch.mm(logits.T, rows, out=ctx.weight)
        return buffer[0, 0].float()

    @staticmethod
    def backward(ctx, _grad):  # type: ignore[override]
        return ctx.hidden, ctx.weight.float()


def products(hidden: Tensor, weight: Tensor, _targets: Tensor, _: Gate) -> Tensor:
    """The three matrix products alone, in chunks: the floor of every method. Its gradients mean nothing."""
    return _Products.apply(hidden, weight)


METHODS: dict[str, Callable[[Tensor, Tensor, Tensor, Gate], Tensor]] = {
    f.__name__: f
    for f in (
        products,
        plain,
        compiled,
        builtin,
        builtin_chunked,
        ungated,
        gated,
        gated_eager,
        chunked,
        three_logits,
        liger,
        cce,
    )
}


def ready(method: str, hidden: Tensor, weight: Tensor, targets: Tensor, gate: Gate) -> Callable[[], None]:
    """Return a function that runs one pass, forward and backward, of a method that is compiled and has its libraries."""

    def once() -> None:
        hidden.grad = weight.grad = None
        METHODS[method](hidden, weight, targets, gate).backward()

    if method in ("compiled", "cce") or hidden.is_cuda:  # compilation is for these shapes
        once()
    else:  # few positions wake the libraries up
        METHODS[method](hidden[:64], weight, targets[:64], gate).backward()
    hidden.grad = weight.grad = None
    return once


def seconds_of(once: Callable[[], None], device: str) -> float:
    start = clock(device)
    once()
    return clock(device) - start


def measure(method: str, m: int, n: int, d: int, device: str, dtype: str, repeats: int) -> dict[str, float]:
    """Seconds of the best of some passes, forward and backward; without a repeat the peak bytes of one pass instead."""
    once = ready(method, *inputs(m, n, d, device, dtype))
    if not repeats:
        before = reset_peak(device)
        once()
        return {"bytes": peak_bytes(device) - before}
    return {"seconds": min(seconds_of(once, device) for _ in range(repeats))}


def in_turn(methods: list[str], m: int, n: int, d: int, device: str, dtype: str, turns: int) -> dict[str, list[float]]:
    """Seconds of each method in each turn. Every other turn has the opposite order."""
    common = inputs(m, n, d, device, dtype)
    passes = {method: ready(method, *common) for method in methods}
    times: dict[str, list[float]] = {method: [] for method in methods}
    for turn in range(turns):
        for method in methods[:: 1 if turn % 2 else -1]:
            times[method].append(seconds_of(passes[method], device))
    return times


def compare(shape: tuple[int, int, int], methods: list[str], device: str, dtype: str, rounds: int) -> list[dict]:
    """One row for each method; one that cannot run has the reason."""
    measured: dict[str, dict] = {
        method: apart(__file__, method, *shape, device, dtype, 0, bare=True) for method in methods
    }
    able = [method for method in methods if "error" not in measured[method]]
    repeats = 10 if device == "cuda" else max(1, min(4, int(WORK / (shape[0] * shape[1] * shape[2]))))
    times = apart(__file__, able, *shape, device, dtype, rounds * repeats) if able else {}
    if "error" in times:
        measured |= {method: {"error": times["error"]} for method in able}
        able = []
    return _rows(shape, dtype, device, {method: measured[method] | {"times": times.get(method)} for method in methods})


def _rows(shape: tuple[int, int, int], dtype: str, device: str, measured: dict[str, dict]) -> list[dict]:
    able = {method: values for method, values in measured.items() if "error" not in values}
    rivals = [method for method in COMPETITORS if method in able]
    bases = dict(able)
    if rivals:
        bases["fastest"] = able[min(rivals, key=lambda method: median(able[method]["times"]))]
    rows = []
    for method, values in measured.items():
        row = dict(zip(("positions", "vocabulary", "width"), shape, strict=True))
        row |= {"dtype": dtype, "method": method, "device": device, "seconds": "", "MB": ""}
        if method in able:
            row |= {"seconds": f"{median(values['times']):.4f}", "MB": round(values["bytes"] / 1e6)}
        for column, base in RATIOS.items():
            row[column] = f"{_ratio(column, values, bases[base]):.3f}" if method in able and base in bases else ""
        rows.append(row | {"note": values.get("error", ""), "machine": machine(device)})
        print(rows[-1], flush=True)
    return rows


def _ratio(column: str, values: dict, base: dict) -> float:
    if column.startswith("memory"):
        return values["bytes"] / base["bytes"]
    return median(own / other for own, other in zip(values["times"], base["times"], strict=True))


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument(
        "--shapes", help="positions x vocabulary x width, as 8192x44256x512,...; default: the device's list"
    )
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument(
        "--dtype", choices=("float32", "bfloat16"), help="default: float32 on a CPU, bfloat16 on a GPU"
    )
    arguments = options.parse_args()
    if arguments.one:
        method, *task = json.loads(arguments.one)
        print(json.dumps((in_turn if isinstance(method, list) else measure)(method, *task)))
        return
    dtype = arguments.dtype or ("bfloat16" if arguments.device == "cuda" else "float32")
    for text in (arguments.shapes or SHAPES[arguments.device]).split(","):
        m, n, d = map(int, text.split("x"))
        rows = compare((m, n, d), arguments.methods.split(","), arguments.device, dtype, arguments.rounds)
        if arguments.out:  # after each shape: a killed run keeps what it has
            keep(rows, arguments.out, ("positions", "vocabulary", "width", "dtype"))


if __name__ == "__main__":
    main()
