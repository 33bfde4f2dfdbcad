"""The loss of a batch, between the model's output and the objective. Some tasks have one of their own.

There are four: a softmax over the embedding matrix; recurrent language models, which carry states from batch to batch;
classifiers; skip-gram with negative sampling.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loss.objective import Objective
from raretokens.loss.terms import SummedLoss, negative_sampling
from raretokens.training.batches import Batch

# Methods of an objective that act on the softmax over the embedding matrix.
SOFTMAX_HOOKS = (
    "loss",
    "gate",
    "target_offset",
    "token_weight",
    "unlikelihood",
    "z_loss",
    "hidden_term",
    "input_term",
)


def changed(objective: Objective, hooks: Iterable[str] = SOFTMAX_HOOKS) -> list[str]:
    """Return the names of the methods that an objective replaces."""
    return [name for name in hooks if getattr(type(objective), name) is not getattr(Objective, name)]


class Criterion:
    """The objective's loss of final hidden states and the embedding matrix.

    A subclass may compute more, or something else. The objective's penalty(), begin_update(), end_update() and frozen rows act
    all the same: the loop asks for them. What it carries from batch to batch is in state_dict().
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective = model, objective

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Sums over the batch's targets: what is minimised, and the NLL. forward: the model, shared by several processes."""
        return self.objective.loss(forward(*batch.inputs), self.model.embedding, batch.targets, inputs=batch.inputs)

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


class Carried(Criterion):
    """Batches are those of columns.py; the model is one of awd_lstm.py's kind."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        self.before = torch.zeros(0, model.state)  # columns x state
        self.own = torch.zeros(0, dtype=torch.bool)  # columns that this process reads
        self.is_mixture = hasattr(model, "nll")
        if self.is_mixture and changed(objective):
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


class ClassScores(Criterion):
    """Cross-entropy of the class of each document. Penalties and frozen rows of an objective act."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        # Objective freeze has gate(), which returns None where only rows are frozen: the loss looks at it.
        if any(name != "gate" for name in changed(objective)):
            self._refuse()

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Raises UserError for an objective that changes the gradient of a softmax over the embedding matrix."""
        if torch.is_grad_enabled() and self.objective.gate() is not None:
            self._refuse()
        scores = forward(*batch.inputs)[:, 0]  # documents x classes
        exact = torch.promote_types(scores.dtype, torch.float32)
        nll = nn.functional.cross_entropy(scores.to(exact), batch.targets[:, 0], reduction="sum")
        return SummedLoss(nll, nll.detach())

    def count(self, batch: Batch) -> Tensor:
        return torch.tensor(batch.targets.numel())

    def _refuse(self) -> None:
        name = type(self.objective).__module__.rpartition(".")[2]
        raise UserError(
            f"objective {name} acts on a softmax over the embedding matrix, which a classifier of documents does not have; "
            "allowed: objectives that act on the embedding matrix itself, such as mle, frage, cosreg"
        )


class NegativeSampling(Criterion):
    """The loss of skip-gram. Of an objective, only what it does to the embedding matrix acts."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        if refused := changed(objective, (*SOFTMAX_HOOKS, "frozen_rows")):
            name = type(objective).__module__.rsplit(".", 1)[-1]
            raise UserError(
                f"objective {name}: its {', '.join(refused)} needs a softmax, which skip-gram does not have"
            )

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        loss = negative_sampling(forward(*batch.inputs), batch.targets, self.model.negatives)
        return SummedLoss(loss, loss.detach())

    def count(self, batch: Batch) -> Tensor:
        return batch.targets.sum()
