"""AdamW with another rule for the tables: the groups with `table=True`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import torch
from torch import Tensor


class TableStep(torch.optim.AdamW, ABC):
    """A rule of one's own is `step_table`; all other parameters, and decoupled weight decay of the tables, are AdamW's."""

    def __init__(self, groups: Iterable[dict], **adam: float) -> None:
        super().__init__(groups, fused=True, **adam)
        # A scaler of gradients must undo itself before the step: ours sees them too.
        self._step_supports_amp_scaling = False

    @abstractmethod
    def step_table(self, group: dict, table: Tensor, gradient: Tensor, state: dict) -> None:
        """Change the table in place, by group["lr"] and so on; `state` is empty at first and lives in the checkpoint."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        tables = [
            (group, p) for group in self.param_groups if group["table"] for p in group["params"] if p.grad is not None
        ]
        gradients = [p.grad for _, p in tables]
        for _, table in tables:
            table.grad = None  # the ordinary step leaves parameters without a gradient alone
        result = super().step(closure)
        for (group, table), gradient in zip(tables, gradients, strict=True):
            table.grad = gradient
            table.mul_(1 - group["lr"] * group["weight_decay"])
            self.step_table(group, table, gradient, self.state[table])
        return result
