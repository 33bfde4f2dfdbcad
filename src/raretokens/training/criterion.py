"""What the loss of a batch is, between the model's output and the objective. A task may have one of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from raretokens.loss.objective import Objective
from raretokens.loss.terms import SummedLoss
from raretokens.training.updates import Batch


class Criterion:
    """The objective's loss of final hidden states and the table.

    A subclass may compute more, or something else. The objective's penalty(), begin_update(), end_update() and frozen rows act
    all the same: the loop asks for them. What it carries from batch to batch is in state_dict().
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective = model, objective

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Sums over the batch's targets: what is minimised, and the NLL. forward: the model, shared by several processes."""
        return self.objective.loss(forward(*batch.inputs), self.model.table, batch.targets, inputs=batch.inputs)

    def count(self, batch: Batch) -> Tensor:
        """How many targets that NLL is of."""
        return (batch.targets != self.objective.facts.pad).sum()

    @contextmanager
    def validation(self) -> Iterator[None]:
        """Inside, batches are those of the validation text, from its start; afterwards training goes on where it was."""
        yield

    def state_dict(self) -> dict[str, Any]:
        """All processes call it together."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict() returned."""
