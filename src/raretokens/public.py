"""The public interface of the package. All other names may change without notice."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.errors import UserError
    from raretokens.loss.facts import Facts, facts, facts_of_text
    from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
    from raretokens.loss.loop import Loop, target_counts
    from raretokens.loss.objective import Objective, keep_frozen_rows
    from raretokens.loss.terms import Gate, Head, SummedLoss, Unlikelihood
    from raretokens.objectives.only_rows import train_only_rows
    from raretokens.objectives.rarity import alpha_for
    from raretokens.objectives.registry import build, objectives

_HOMES = {
    "Facts": "raretokens.loss.facts",
    "Gate": "raretokens.loss.terms",
    "Head": "raretokens.loss.terms",
    "Loop": "raretokens.loss.loop",
    "Objective": "raretokens.loss.objective",
    "SummedLoss": "raretokens.loss.terms",
    "Unlikelihood": "raretokens.loss.terms",
    "UserError": "raretokens.errors",
    "alpha_for": "raretokens.objectives.rarity",
    "build": "raretokens.objectives.registry",
    "facts": "raretokens.loss.facts",
    "facts_of_text": "raretokens.loss.facts",
    "gated_linear_cross_entropy": "raretokens.loss.gated_cross_entropy",
    "keep_frozen_rows": "raretokens.loss.objective",
    "objectives": "raretokens.objectives.registry",
    "target_counts": "raretokens.loss.loop",
    "train_only_rows": "raretokens.objectives.only_rows",
}

__all__ = [
    "Facts",
    "Gate",
    "Head",
    "Loop",
    "Objective",
    "SummedLoss",
    "Unlikelihood",
    "UserError",
    "alpha_for",
    "build",
    "facts",
    "facts_of_text",
    "gated_linear_cross_entropy",
    "keep_frozen_rows",
    "objectives",
    "target_counts",
    "train_only_rows",
]


def load(name: str) -> Any:
    if name == "__all__":
        return __all__
    if name not in _HOMES:
        raise AttributeError(f"module 'raretokens' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
