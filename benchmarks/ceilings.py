"""What this machine reaches at most: products by type, convolutions, copies, exponentials, pooling, starts of operations.

card.py reports them first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from measuring import clock
from torch.nn import functional as F

EDGE = {"cpu": 1024, "cuda": 8192}  # of a square matrix product
NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 29}  # float32, of an operation on each number alone: more than a cache holds
TRAINING = (32768, 1024, 4096)  # positions x width x feed-forward of GPT-2 medium
STARTS = 500  # operations on one number, to time their start


class Ceiling(NamedTuple):
    case: str
    value: float  # in units a second; seconds where the unit is "s"
    unit: str  # FLOP, bytes or numbers a second


def ceilings(device: str, rounds: int) -> Iterator[Ceiling]:
    """Yield each rate; the best round counts."""
    edge, numbers = EDGE[device], NUMBERS[device]
    for name in (
        "float32",
        *(("tf32",) if device == "cuda" else ()),
        "bfloat16",
        *(("float16",) if device == "cuda" else ()),
    ):
        yield Ceiling(f"product {name}", _product(name, edge, edge, edge, device, rounds), "FLOP/s")
    shape = TRAINING if device == "cuda" else (edge, edge // 4, edge)
    for name in ("float32", "bfloat16"):
        yield Ceiling(
            f"product {name} {shape[0]}x{shape[1]}x{shape[2]}", _product(name, *shape, device, rounds), "FLOP/s"
        )
    rate = _product_with_gradient(*shape, device, rounds)
    yield Ceiling(f"product float32 {shape[0]}x{shape[1]}x{shape[2]} with its gradient", rate, "FLOP/s")
    yield Ceiling("convolution float32 with its gradient", _convolution(64, device, rounds), "FLOP/s")
    source, other, into = (torch.rand(numbers, device=device) for _ in range(3))
    yield Ceiling("copy", 2 * 4 * numbers / _best(lambda: into.copy_(source), device, rounds), "bytes/s")
    yield Ceiling(
        "sum of two", 3 * 4 * numbers / _best(lambda: torch.add(source, other, out=into), device, rounds), "bytes/s"
    )
    yield Ceiling("exponentials", numbers / _best(lambda: torch.exp(source, out=into), device, rounds), "numbers/s")
    yield Ceiling("random numbers", numbers / _best(lambda: into.bernoulli_(0.9), device, rounds), "numbers/s")
    images = source[: numbers // 1024 * 1024].view(1, -1, 32, 32)
    yield Ceiling("pooling", images.numel() / _best(lambda: F.max_pool2d(images, 2), device, rounds), "numbers/s")
    one = torch.zeros(1, device=device)
    yield Ceiling(
        "start of an operation", _best(lambda: [one.add_(1.0) for _ in range(STARTS)], device, rounds) / STARTS, "s"
    )
    yield Ceiling("start of one with its gradient", _best(lambda: _chain(one), device, rounds) / (3 * STARTS), "s")
    yield Ceiling("start of a convolution", _small_convolutions(device, rounds), "s")


def _chain(one: torch.Tensor) -> None:
    """Run STARTS products of one number and twice as many operations of their gradients."""
    factor, value = torch.ones_like(one, requires_grad=True), one
    for _ in range(STARTS):
        value = value * factor
    value.backward()


def _product(name: str, rows: int, inner: int, columns: int, device: str, rounds: int) -> float:
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    left, right = (torch.randn(size, device=device).to(dtype) for size in ((rows, inner), (inner, columns)))
    with _tf32(name == "tf32", device):
        return 2 * rows * inner * columns / _best(lambda: left @ right, device, rounds)


def _product_with_gradient(rows: int, inner: int, columns: int, device: str, rounds: int) -> float:
    """FLOPs a second of a linear layer and of its gradients by inputs and weights, each a float32 product."""
    inputs, weights = (torch.randn(size, inner, device=device, requires_grad=True) for size in (rows, columns))
    gradient = torch.randn(rows, columns, device=device)

    def step() -> None:
        torch.autograd.grad(F.linear(inputs, weights), (inputs, weights), gradient)

    with _tf32(False, device):
        return 3 * 2 * rows * inner * columns / _best(step, device, rounds)


def _convolution(channels: int, device: str, rounds: int) -> float:
    """FLOPs a second of a 3 x 3 convolution of 32 images of 16 x 16, and of its gradients by images and weights."""
    images = torch.randn(32, channels, 16, 16, device=device, requires_grad=True)
    weights = torch.randn(channels, channels, 3, 3, device=device, requires_grad=True)

    def step() -> None:
        F.conv2d(images, weights, padding=1).sum().backward()

    with _tf32(False, device):
        return 3 * 2 * images.numel() * channels * 9 / _best(step, device, rounds)


def _small_convolutions(device: str, rounds: int) -> float:
    """Seconds of a 3 x 3 convolution of two images of 4 x 4, or of its gradients: their mean."""
    images, weights = (torch.rand(2, 1, size, size, device=device, requires_grad=True) for size in (4, 3))

    def steps() -> None:
        for _ in range(STARTS // 10):
            F.conv2d(images, weights, padding=1).sum().backward()

    return _best(steps, device, rounds) / (2 * (STARTS // 10))


@contextmanager
def _tf32(is_allowed: bool, device: str) -> Iterator[None]:
    """Set whether float32 products may use TF32, and restore the setting."""
    if device != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = is_allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _best(work: Callable[[], object], device: str, rounds: int) -> float:
    """Seconds of the best round, after one that does not count."""
    work()
    seconds = []
    for _ in range(max(rounds, 1)):
        start = clock(device)
        work()
        seconds.append(clock(device) - start)
    return max(min(seconds), 1e-9)
