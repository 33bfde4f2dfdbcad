"""The loss of a recurrent language model: states carried from batch to batch, penalties, one softmax or a mixture."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loss.gated_cross_entropy import SummedLoss
from raretokens.loss.objective import Objective
from raretokens.training.criterion import Criterion
from raretokens.training.updates import Batch

OF_SOFTMAX = (
    "loss",
    "gate",
    "target_offset",
    "token_weight",
    "unlikelihood",
    "z_loss",
    "hidden_term",
    "input_term",
)  # what an objective may change of one softmax


class Carried(Criterion):
    """Batches are those of columns.py; the model is one of awd_lstm.py's kind."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        self.before = torch.zeros(0, model.state)  # columns x state
        self.own = torch.zeros(0, dtype=torch.bool)  # columns that this process reads
        self.is_mixture = hasattr(model, "nll")
        if self.is_mixture and any(
            getattr(type(objective), name) is not getattr(Objective, name) for name in OF_SOFTMAX
        ):
            raise UserError(
                "objective: it changes the softmax, which a mixture of softmaxes has not; allowed: one that adds a penalty"
            )

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        inputs, columns = batch.inputs
        output = forward(inputs, self._carried(columns))
        kept = batch.targets != self.objective.facts.pad
        self._carry(columns, output.carried, kept)
        loss, nll = self._likelihood(output.hidden, batch.targets, kept)
        return SummedLoss(loss + self.model.penalty(output, kept) if torch.is_grad_enabled() else loss, nll)

    def _likelihood(self, hidden: Tensor, targets: Tensor, kept: Tensor) -> SummedLoss:
        if not self.is_mixture:
            return self.objective.loss(*self.model.softmax(hidden), targets)
        nll = self.model.nll(hidden, targets)[kept].sum()
        return SummedLoss(nll, nll.detach())

    def _carried(self, columns: Tensor) -> Tensor:
        """States before these columns; zeros where they begin."""
        number = torch.where(columns < 0, -1 - columns, columns)
        more = int(number.max()) + 1 - len(self.before)
        self.before, self.own = self.before.to(columns.device), self.own.to(columns.device)
        if more > 0:
            self.before = torch.cat((self.before, self.before.new_zeros(more, self.model.state)))
            self.own = torch.cat((self.own, self.own.new_zeros(more)))
        return torch.where(columns[:, None] < 0, 0.0, self.before[number])

    def _carry(self, columns: Tensor, after: Tensor, kept: Tensor) -> None:
        number = torch.where(columns < 0, -1 - columns, columns)[
            kept.any(1)
        ]  # a batch without targets is another process's
        self.before[number], self.own[number] = after[kept.any(1)], True

    @contextmanager
    def validation(self) -> Iterator[None]:
        before, own = self.before, self.own
        self.before, self.own = before[:0], own[:0]
        try:
            yield
        finally:
            self.before, self.own = before, own

    def state_dict(self) -> dict[str, Any]:
        """The states of all processes' columns."""
        own = self.own.cpu()
        parts = gather_object([(own.nonzero().flatten(), self.before.cpu()[own])])
        columns, states = (torch.cat(part) for part in zip(*parts, strict=True))
        return {"before": states[columns.argsort()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.before = state["before"]
        self.own = torch.zeros(len(self.before), dtype=torch.bool)
