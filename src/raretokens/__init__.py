"""raretokens: the representation degeneration papers as one pipeline, and their objectives for any training loop.

    from raretokens import build, facts, gated_linear_cross_entropy

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.api import facts, keep_frozen_rows, target_counts
    from raretokens.objectives import build
    from raretokens.training.gated_cross_entropy import Gate, SummedLoss, gated_linear_cross_entropy
    from raretokens.training.objective import Facts, Objective
    from raretokens.training.unlikelihood import Unlikelihood

_HOMES = {
    "Facts": "raretokens.training.objective",
    "Gate": "raretokens.training.gated_cross_entropy",
    "Objective": "raretokens.training.objective",
    "SummedLoss": "raretokens.training.gated_cross_entropy",
    "Unlikelihood": "raretokens.training.unlikelihood",
    "build": "raretokens.objectives",
    "facts": "raretokens.api",
    "gated_linear_cross_entropy": "raretokens.training.gated_cross_entropy",
    "keep_frozen_rows": "raretokens.api",
    "target_counts": "raretokens.api",
}

__all__ = [  # the public interface; everything else may change
    "Facts",
    "Gate",
    "Objective",
    "SummedLoss",
    "Unlikelihood",
    "build",
    "facts",
    "gated_linear_cross_entropy",
    "keep_frozen_rows",
    "target_counts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'raretokens' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
