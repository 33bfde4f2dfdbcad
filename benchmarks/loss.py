"""Time and memory of the loss alone, forward and backward: ours beside plain, compiled, chunked and published constructions.

    python benchmarks/loss.py [--shapes 2048x8192x512,...] [--dtype bfloat16] [--out benchmarks/loss-cpu.csv]

Each method runs in a process of its own, one after another, in several rounds; the best round counts. Seconds are those of the
processor on a CPU, of the device on a GPU; a pass before them (and compilation) does not count. In bfloat16, the only choice on
a GPU, the embedding matrix and sums are float32. Memory is the peak above the inputs of one pass. Ratios are to `plain`,
`compiled` and `ungated` of the same run. Rows of shapes that are not measured stay in the file.
"""

import json
import sys
from collections.abc import Callable
from functools import cache

import torch
from measuring import apart, clock, machine, parser, peak_bytes, reset_peak
from records import keep
from torch import Tensor
from torch.nn import functional as F

from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import Gate

# positions x vocabulary x width: vocabularies of 8 thousand, of AGG's WikiText-103 in pieces, and of that text in whole words.
SHAPES = {
    "cpu": "2048x8192x512,8192x8192x512,2048x8192x1024,2048x44256x512,8192x44256x512,2048x44256x1024,1024x267736x512",
    "cuda": "8192x8192x1024,32768x8192x1024,8192x44256x512,8192x44256x1024,32768x44256x1024,8192x267736x1024",
}
RARE_SHARE = 0.2  # of the types; their targets are about 2 % of the positions
RATIOS = (
    ("time", "seconds", "plain"), ("memory", "bytes", "plain"), ("time", "seconds", "compiled"),
    ("time", "seconds", "ungated"), ("memory", "bytes", "ungated"),
)  # fmt: skip
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
    except ModuleNotFoundError:
        sys.exit("cut_cross_entropy is not installed")  # it is optional
    kind = "cce" if hidden.is_cuda else "torch_compile"
    return linear_cross_entropy(hidden, weight.to(hidden.dtype), targets, reduction="sum", impl=kind)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight):  # type: ignore[override]
        logits = hidden @ weight.T
        ctx.save_for_backward(hidden, weight, logits)
        return logits[0, 0].float()

    @staticmethod
    def backward(ctx, grad):  # type: ignore[override]
        hidden, weight, logits = ctx.saved_tensors
        return logits @ weight, logits.T @ hidden


def products(hidden: Tensor, weight: Tensor, targets: Tensor, _: Gate) -> Tensor:
    """The three matrix products alone: the floor of every method. Its gradients mean nothing."""
    return _Products.apply(hidden, weight.to(hidden.dtype))


METHODS: dict[str, Callable[[Tensor, Tensor, Tensor, Gate], Tensor]] = {
    f.__name__: f
    for f in (products, plain, compiled, builtin, builtin_chunked, ungated, gated, chunked, three_logits, liger, cce)
}


def measure(method: str, m: int, n: int, d: int, device: str, dtype: str, repeats: int) -> dict[str, float]:
    """Seconds of the best of some passes, forward and backward; without a repeat the peak bytes of one pass instead."""
    hidden, weight, targets, gate = inputs(m, n, d, device, dtype)

    def once() -> None:
        hidden.grad = weight.grad = None
        METHODS[method](hidden, weight, targets, gate).backward()

    if method in ("compiled", "cce"):  # compilation is for these shapes
        once()
    else:  # few positions wake the libraries up
        METHODS[method](hidden[:64], weight, targets[:64], gate).backward()
    hidden.grad = weight.grad = None
    if not repeats:
        before = reset_peak(device)
        once()
        return {"bytes": peak_bytes(device) - before}
    times = []
    for _ in range(repeats):
        start = clock(device)
        once()
        times.append(clock(device) - start)
    return {"seconds": min(times)}


def best(method: str, shape: tuple[int, int, int], device: str, dtype: str, before: dict) -> dict:
    """`before` with a further round of the method, in a process of its own."""
    m, n, d = shape
    repeats = 10 if device == "cuda" else max(1, min(4, int(WORK / (m * n * d))))
    new = apart(__file__, method, m, n, d, device, dtype, repeats)
    if "seconds" in before and "seconds" in new:
        new["seconds"] = min(new["seconds"], before["seconds"])
    return before | new


def compare(shape: tuple[int, int, int], methods: list[str], device: str, dtype: str, rounds: int) -> list[dict]:
    measured: dict[str, dict] = {
        method: apart(__file__, method, *shape, device, dtype, 0, bare=True) for method in methods
    }
    for _ in range(rounds):
        for method in methods:
            if "error" not in measured[method]:
                measured[method] = best(method, shape, device, dtype, measured[method])
    rows = []
    for method, values in measured.items():
        row = dict(zip(("positions", "vocabulary", "width"), shape, strict=True))
        row |= {"dtype": dtype, "method": method, "device": device, "seconds": "", "MB": ""}
        if "error" not in values:
            row |= {"seconds": f"{values['seconds']:.4f}", "MB": round(values["bytes"] / 1e6)}
        for what, key, name in RATIOS:
            base = measured.get(name, {"error": ""})
            is_measured = "error" not in base and "error" not in values
            row[f"{what}_to_{name}"] = f"{values[key] / base[key]:.3f}" if is_measured else ""
        rows.append(row | {"note": values.get("error", ""), "machine": machine(device)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    options = parser(__doc__, rounds=2)
    options.add_argument(
        "--shapes", help="positions x vocabulary x width, as 8192x44256x512,...; default: the device's list"
    )
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument(
        "--dtype", choices=("float32", "bfloat16"), help="default: float32 on a CPU, bfloat16 on a GPU"
    )
    arguments = options.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    dtype = arguments.dtype or ("bfloat16" if arguments.device == "cuda" else "float32")
    for text in (arguments.shapes or SHAPES[arguments.device]).split(","):
        m, n, d = map(int, text.split("x"))
        rows = compare((m, n, d), arguments.methods.split(","), arguments.device, dtype, arguments.rounds)
        if arguments.out:  # after each shape: a killed run keeps what it has
            keep(rows, arguments.out, ("positions", "vocabulary", "width", "dtype"))


if __name__ == "__main__":
    main()
