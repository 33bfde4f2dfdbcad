"""Weights of torch.nn's layers under the names that transformers gives them."""

from collections.abc import Iterator

from torch import Tensor, nn

Named = Iterator[tuple[str, Tensor]]


def attention(name: str, source: nn.MultiheadAttention) -> Named:
    """The three projections lie in one matrix here, one after another."""
    for part, weight, bias in zip("qkv", source.in_proj_weight.chunk(3), source.in_proj_bias.chunk(3), strict=True):
        yield f"{name}.{part}_proj.weight", weight
        yield f"{name}.{part}_proj.bias", bias
    yield from both(f"{name}.out_proj", source.out_proj)


def both(name: str, source: nn.Linear | nn.LayerNorm) -> Named:
    """Weight and bias."""
    yield f"{name}.weight", source.weight
    yield f"{name}.bias", source.bias
