"""The public interface: everything else may change."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.loss.counts import target_counts
    from raretokens.loss.facts import Facts, facts
    from raretokens.loss.gated_cross_entropy import Gate, SummedLoss, gated_linear_cross_entropy
    from raretokens.loss.objective import Objective, keep_frozen_rows
    from raretokens.loss.unlikelihood import Unlikelihood
    from raretokens.objectives.building import build

_HOMES = {
    "Facts": "raretokens.loss.facts",
    "Gate": "raretokens.loss.gated_cross_entropy",
    "Objective": "raretokens.loss.objective",
    "SummedLoss": "raretokens.loss.gated_cross_entropy",
    "Unlikelihood": "raretokens.loss.unlikelihood",
    "build": "raretokens.objectives.building",
    "facts": "raretokens.loss.facts",
    "gated_linear_cross_entropy": "raretokens.loss.gated_cross_entropy",
    "keep_frozen_rows": "raretokens.loss.objective",
    "target_counts": "raretokens.loss.counts",
}

__all__ = [
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


def load(name: str) -> Any:
    if name == "__all__":
        return __all__
    if name not in _HOMES:
        raise AttributeError(f"module 'raretokens' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
