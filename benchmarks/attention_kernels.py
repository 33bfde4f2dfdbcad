"""Counts of the attention kernels that a forward pass calls."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

ATTENTION = "_scaled_dot_product_"  # beginning of the names of the fused kernels


class AttentionKernels(TorchDispatchMode):
    """Counts the calls of each attention kernel in forward passes, with and without a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, bool]] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = function._schema.name.removeprefix("aten::"), kwargs or {}
        if name.startswith(ATTENTION) and not name.endswith("backward"):
            masks = (args[index] for index, one in enumerate(function._schema.arguments[: len(args)]) if _is_mask(one))
            has_mask = any(mask is not None for mask in (*masks, kwargs.get("attn_mask"), kwargs.get("attn_bias")))
            self.counts[name.removeprefix(ATTENTION), has_mask] += 1
        return function(*args, **kwargs)


def _is_mask(argument: Any) -> bool:
    return argument.name in ("attn_mask", "attn_bias")
