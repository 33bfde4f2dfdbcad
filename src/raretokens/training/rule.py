"""Learning rate: linear warm-up, then the inverse square root of the update (Vaswani et al., 2017; fairseq's form).

When validation no longer improves (Merity et al., 2018, Algorithm 1, in the form of the public code).
How the weights move: an optimizer, its rate in each update, and which weights are validated and kept.

A rule is a file of rules/, found by its name, so that a run depends on the file of its own rule alone.
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
from raretokens.training.config import Training

INITIAL_LR = 1e-7


def learning_rate(update: int, peak: float, warmup: int) -> float:
    """Rate of update `update`, counted from 1."""
    if update <= warmup:
        return INITIAL_LR + (peak - INITIAL_LR) * update / warmup
    return peak * (warmup / update) ** 0.5


def is_worse(validated: Sequence[float], window: int) -> bool:
    """Whether the last NLL is above the best of all but the `window` before it; never while there are no others."""
    earlier = validated[: -window - 1]
    return bool(earlier) and validated[-1] > min(earlier)


def latest(validated: Sequence[float], window: int) -> list[float]:
    """Return what is_worse() needs of these NLLs: the best of all but the last `window` + 1, and those."""
    earlier = validated[: -window - 1]
    return [*([min(earlier)] if earlier else []), *validated[-window - 1 :]]


class Rule(ABC):
    """A constant rate of an optimizer that a subclass names; the weights are kept as they are.

    What must survive a resume beside the optimizer's own state is in state_dict().
    """

    optimizer: torch.optim.Optimizer

    def __init__(self, training: Training, model: nn.Module, objective: Objective, **options: Any) -> None:
        self.training, self.model, self.objective, self.options = training, model, objective, options
        rest = [parameter for parameter in model.parameters() if parameter is not model.embedding]
        groups = [{"params": [model.embedding], "embedding": True}, {"params": rest, "embedding": False}]
        self.optimizer = self.over(groups)  # the trainer puts in its place what accelerate makes of it

    @abstractmethod
    def over(self, groups: list[dict]) -> torch.optim.Optimizer:
        """The optimizer of these parameters; the group with `embedding=True` holds the embedding matrix alone."""

    def rate(self, update: int, targets: int) -> float:
        """Of update `update`, counted from 1, of so many targets."""
        return self.training.peak_lr

    def step(self, update: int, targets: int) -> float:
        """Move the weights by their gradients; the rate."""
        rate = self.rate(update, targets)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return rate

    def validated(self, nll: float) -> None:  # noqa: B027 - most rules do nothing then
        """The weights have this NLL on the validation text."""

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        """Inside, the model has the weights that are validated and kept."""
        yield

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most have nothing
        """What state_dict() returned."""


def build(training: Training, model: nn.Module, objective: Objective) -> Rule:
    """The recipe's rule; options that it does not give take their defaults."""
    module = import_module(f"raretokens.training.rules.{training.rule.name}")
    return module.RULE(training, model, objective, **{**module.OPTIONS, **training.rule.options})


def without_own_optimizer(objective: Objective, rule: str) -> None:
    """Raise UserError where an objective changes the optimizer, which is Adam then."""
    if type(objective).optimizer is not Objective.optimizer:
        raise UserError(
            f"training.rule.name: {rule} has an optimizer of its own, and so has the objective; allowed: warmup_adam, adam"
        )
