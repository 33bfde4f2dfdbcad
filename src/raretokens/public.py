"""The public interface of the package. All other names may change without notice."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raretokens.errors import UserError
    from raretokens.loop.loop import Loop, target_counts
    from raretokens.loop.only_rows import train_only_rows
    from raretokens.loss.facts import Facts
    from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
    from raretokens.loss.logits_objective import LogitsObjective
    from raretokens.loss.objective import Objective, keep_frozen_rows
    from raretokens.loss.position_weight import weighted_linear_cross_entropy
    from raretokens.loss.rare_share import facts, facts_of_text
    from raretokens.loss.terms import Gate, Head, SummedLoss, Unlikelihood
    from raretokens.objectives.rarity import alpha_for
    from raretokens.objectives.registry import build, objectives

_MODULES = {
    "errors": ("UserError",),
    "loop.loop": ("Loop", "target_counts"),
    "loop.only_rows": ("train_only_rows",),
    "loss.facts": ("Facts",),
    "loss.gated_cross_entropy": ("gated_linear_cross_entropy",),
    "loss.logits_objective": ("LogitsObjective",),
    "loss.objective": ("Objective", "keep_frozen_rows"),
    "loss.position_weight": ("weighted_linear_cross_entropy",),
    "loss.rare_share": ("facts", "facts_of_text"),
    "loss.terms": ("Gate", "Head", "SummedLoss", "Unlikelihood"),
    "objectives.rarity": ("alpha_for",),
    "objectives.registry": ("build", "objectives"),
}
_HOMES = {name: f"raretokens.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Facts", "Gate", "Head", "LogitsObjective", "Loop", "Objective", "SummedLoss", "Unlikelihood", "UserError", "alpha_for",
    "build", "facts", "facts_of_text", "gated_linear_cross_entropy", "keep_frozen_rows", "objectives", "target_counts",
    "train_only_rows", "weighted_linear_cross_entropy",
]  # fmt: skip


def load(name: str) -> Any:
    if name == "__all__":
        return __all__
    if name not in _HOMES:
        raise AttributeError(f"module 'raretokens' has no attribute {name!r}; public names: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
