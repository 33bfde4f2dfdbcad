"""Optimizer rules: a rule defines the optimizer, its learning rate in each step, and the weights to validate and keep.

Each rule is a file of rules/, found by its name, so that a run depends only on the file of its own rule. This module also
contains the inverse-square-root schedule (Vaswani et al., 2017; fairseq's form) and the stopping criterion of Merity et al.
(2018, Algorithm 1, in the form of the public code).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import nn

from raretokens.errors import UserError
from raretokens.loss.objective import Objective
from reproduction.training.recipe import Training

INITIAL_LR = 1e-7


def learning_rate(step: int, peak: float, warmup: int) -> float:
    """Return the learning rate of `step` (from 1): linear warm-up, then the inverse square root of the step."""
    if step <= warmup:
        return INITIAL_LR + (peak - INITIAL_LR) * step / warmup
    return peak * (warmup / step) ** 0.5


def is_worse(validated: Sequence[float], window: int) -> bool:
    """Return whether the last NLL is above the best NLL before the preceding `window`; False while there is none."""
    earlier = validated[: -window - 1]
    return bool(earlier) and validated[-1] > min(earlier)


def latest(validated: Sequence[float], window: int) -> list[float]:
    """Return the NLLs that `is_worse` needs: the last `window` + 1, preceded by the best of all earlier ones."""
    earlier = validated[: -window - 1]
    return [*([min(earlier)] if earlier else []), *validated[-window - 1 :]]


class Rule(ABC):
    """Base class of optimizer rules: a constant learning rate, and final weights without averaging.

    A subclass defines the optimizer. State besides the optimizer's own state belongs in state_dict().
    """

    optimizer: torch.optim.Optimizer

    def __init__(self, training: Training, model: nn.Module, objective: Objective, **options: Any) -> None:
        self.training, self.model, self.objective, self.options = training, model, objective, options
        rest = [parameter for parameter in model.parameters() if parameter is not model.embedding]
        groups = [{"params": [model.embedding], "embedding": True}, {"params": rest, "embedding": False}]
        self.optimizer = self.over(groups)  # the trainer replaces it by the optimizer that Accelerate prepared

    @abstractmethod
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        """Return the optimizer of these groups; the group with `embedding=True` contains only the embedding matrix."""

    def rate(self, step: int, targets: int) -> float:
        """Return the learning rate of `step` (from 1), which has `targets` targets."""
        return self.training.peak_lr

    def step(self, step: int, targets: int) -> float:
        """Apply the optimizer's step and return the learning rate."""
        rate = self.rate(step, targets)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return rate

    def validated(self, nll: float) -> None:  # noqa: B027 - most rules do nothing then
        """Handle the validation NLL of the current weights."""

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        """Context in which the model has the weights to validate and keep."""
        yield

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most have nothing
        """Load what `state_dict` returned."""


def build(training: Training, model: nn.Module, objective: Objective) -> Rule:
    """Return the rule of the training settings; missing options take their defaults."""
    module = import_module(f"reproduction.training.rules.{training.rule.name}")
    return module.RULE(training, model, objective, **{**module.OPTIONS, **training.rule.options})


def without_own_optimizer(objective: Objective, rule: str) -> None:
    """Raise UserError if the objective overrides the optimizer, because the override requires Adam."""
    if type(objective).optimizer is not Objective.optimizer:
        raise UserError(
            f"training.rule.name: {rule} has an optimizer of its own, and so has the objective; allowed: warmup_adam, adam"
        )
