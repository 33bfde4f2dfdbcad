"""SGD that starts to average its weights when validation no longer improves: NT-ASGD (Merity et al., 2018, Algorithm 1).

The mean of the weights after each step since the trigger is validated and kept. Training itself continues with the raw weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reproduction.training.rule import is_worse
from reproduction.training.rules import sgd

OPTIONS = {
    "clip": 0.25,
    "by_length": True,
    "window": 5,  # validations that may pass without a new best
    "average_from_start": False,  # average from the first step on, as finetuning does
}


class NTASGD(sgd.SGD):
    def __init__(self, *recipe: Any, **options: Any) -> None:
        super().__init__(*recipe, **options)
        self.history: list[float] = []
        self.averages: dict[str, torch.Tensor] | None = None
        self.averaged = 0  # number of averaged steps

    def step(self, step: int, targets: int) -> float:
        rate = super().step(step, targets)
        if self.options["average_from_start"] and self.averages is None:
            self._begin()
        if self.averages is not None:
            self.averaged += 1
            for name, weight in self.model.named_parameters():
                self.averages[name].lerp_(weight.detach(), 1 / self.averaged)
        return rate

    def validated(self, nll: float) -> None:
        if self.averages is None and is_worse([*self.history, nll], self.options["window"]):
            self._begin()
        self.history.append(nll)

    def _begin(self) -> None:
        self.averages = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        if not self.averaged:
            yield
            return
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        try:
            self._put(self.averages or {})
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, weights: dict[str, torch.Tensor]) -> None:
        for name, weight in self.model.named_parameters():
            weight.copy_(weights[name])

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history, "averages": self.averages, "averaged": self.averaged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.history, self.averaged = state["history"], state["averaged"]
        if state["averages"] is not None:
            self._begin()
            for name, mean in (self.averages or {}).items():
                mean.copy_(state["averages"][name])


RULE = NTASGD
