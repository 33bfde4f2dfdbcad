"""Criteria: each computes the loss of a batch from the model's output and the objective.

There are four criteria: a softmax over the embedding matrix, recurrent language models (which carry states from batch to batch),
classifiers, and skip-gram with negative sampling. A task may define its own.
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
from reproduction.training.batches import Batch

# Methods of an objective that act on the softmax over the embedding matrix.
SOFTMAX_HOOKS = ("loss", "gate", "target_offset", "token_weight", "unlikelihood", "z_loss", "hidden_term", "input_term")


def changed(objective: Objective, hooks: Iterable[str] = SOFTMAX_HOOKS) -> list[str]:
    """Return the names of the methods that an objective replaces."""
    return [name for name in hooks if getattr(type(objective), name) is not getattr(Objective, name)]


class Criterion:
    """The objective's loss of final hidden states and the embedding matrix.

    A subclass may compute another loss. The training loop itself calls the objective's penalty(), begin_step() and end_step()
    and handles frozen rows. State that a criterion carries from batch to batch belongs in state_dict().
    """

    reads_rows = True  # whether the loss uses Batch.rows

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective = model, objective

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Return sums over the batch's targets: the loss to minimise, and the NLL.

        forward: the model, wrapped for distributed training.
        """
        hidden = forward(*batch.inputs)
        return self.objective.loss(hidden, self.model.embedding, batch.targets, inputs=batch.inputs, rows=batch.rows)

    def count(self, batch: Batch) -> Tensor:
        """Return the number of targets in the batch's NLL."""
        return (batch.targets != self.objective.facts.pad).sum()

    @contextmanager
    def validation(self) -> Iterator[None]:
        """Context for a pass over the validation text from its start; afterwards, the training state is restored."""
        yield

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all processes; all processes must call this method together."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` returned."""


class Carried(Criterion):
    """Criterion of recurrent language models (awd_lstm.py), whose batches are those of `Columns` in token_batches.py."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        self.before = torch.zeros(0, model.state)  # columns x state
        self.own = torch.zeros(0, dtype=torch.bool)  # mask of the columns that this process reads
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
        loss, nll = self._likelihood(output.hidden, batch, kept)
        return SummedLoss(loss + self.model.penalty(output, kept) if torch.is_grad_enabled() else loss, nll)

    def _likelihood(self, hidden: Tensor, batch: Batch, kept: Tensor) -> SummedLoss:
        if not self.is_mixture:
            return self.objective.loss(*self.model.softmax(hidden), batch.targets, rows=batch.rows)
        nll = self.model.nll(hidden, batch.targets)[kept].sum()
        return SummedLoss(nll, nll.detach())

    def _carried(self, columns: Tensor) -> Tensor:
        """Return the states before these positions of the columns, with zeros at the start of a column."""
        number = torch.where(columns < 0, -1 - columns, columns)
        more = int(number.max()) + 1 - len(self.before)
        self.before, self.own = self.before.to(columns.device), self.own.to(columns.device)
        if more > 0:
            self.before = torch.cat((self.before, self.before.new_zeros(more, self.model.state)))
            self.own = torch.cat((self.own, self.own.new_zeros(more)))
        return torch.where(columns[:, None] < 0, 0.0, self.before[number])

    def _carry(self, columns: Tensor, after: Tensor, kept: Tensor) -> None:
        is_own = kept.any(1)  # a batch without targets repeats a column of another process
        number = torch.where(columns < 0, -1 - columns, columns)[is_own]
        self.before[number], self.own[number] = after[is_own], True

    @contextmanager
    def validation(self) -> Iterator[None]:
        before, own = self.before, self.own
        self.before, self.own = before[:0], own[:0]
        try:
            yield
        finally:
            self.before, self.own = before, own

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the columns of all processes."""
        own = self.own.cpu()
        parts = gather_object([(own.nonzero().flatten(), self.before.cpu()[own])])
        columns, states = (torch.cat(part) for part in zip(*parts, strict=True))
        return {"before": states[columns.argsort()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.before = state["before"]
        self.own = torch.zeros(len(self.before), dtype=torch.bool)


class ClassScores(Criterion):
    """Cross-entropy of document classes. An objective acts only through penalties and frozen rows."""

    reads_rows = False

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        # The objective freeze overrides gate(), which returns None if it only freezes rows. So loss() checks the gate.
        if any(name != "gate" for name in changed(objective)):
            self._refuse()

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        """Return the summed cross-entropy. Raises UserError if the objective gates the gradient of the embedding's softmax."""
        if torch.is_grad_enabled() and self.objective.gate() is not None:
            self._refuse()
        scores = forward(*batch.inputs)[:, 0]  # documents x classes
        exact = torch.promote_types(scores.dtype, torch.float32)
        nll = nn.functional.cross_entropy(scores.to(exact), batch.targets[:, 0], reduction="sum")
        return SummedLoss(nll, nll.detach())

    def count(self, batch: Batch) -> Tensor:
        return torch.tensor(batch.targets.numel())

    def _refuse(self) -> None:
        raise UserError(
            f"objective {self.objective.name} acts on a softmax over the embedding matrix, which a classifier of documents does "
            "not have; allowed: objectives that act on the embedding matrix itself, such as mle, frage, cosreg"
        )


class NegativeSampling(Criterion):
    """Negative-sampling loss of skip-gram. An objective acts only on the embedding matrix itself."""

    reads_rows = False

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__(model, objective)
        if refused := changed(objective, (*SOFTMAX_HOOKS, "frozen_rows")):
            needed = ", ".join(refused)
            raise UserError(f"objective {objective.name}: its {needed} needs a softmax, which skip-gram does not have")

    def loss(self, forward: Callable[..., Any], batch: Batch) -> SummedLoss:
        loss = negative_sampling(forward(*batch.inputs), batch.targets, self.model.negatives)
        return SummedLoss(loss, loss.detach())

    def count(self, batch: Batch) -> Tensor:
        return batch.targets.sum()
