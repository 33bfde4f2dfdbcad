"""What a training objective may change. The defaults are maximum likelihood; a file in objectives/ overrides some of them.

One update runs `begin_update` once, `loss` on each micro-batch, `penalty` once, the optimizer's step, `end_update` once.
State that must survive a resume lives in buffers, parameters or extra state, so that state_dict() holds it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from raretokens.loss.facts import Facts
from raretokens.loss.gated_cross_entropy import gated_linear_cross_entropy
from raretokens.loss.terms import PLAIN, Gate, Head, SummedLoss, Unlikelihood


class Objective(nn.Module):
    """Maximum likelihood with label smoothing, and the points where other objectives differ from it."""

    has_begun = False  # it was told of an update

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    def __init_subclass__(cls, **settings: Any) -> None:
        """An objective that has something to do before an update is checked to be told of it, with counts that fit."""
        super().__init_subclass__(**settings)
        if "begin_update" in vars(cls):
            cls.begin_update = _told(cls.begin_update)  # type: ignore[method-assign]

    def begin_update(self, counts: Tensor) -> None:
        """counts: N, int64, targets of the whole update by type: all micro-batches, all processes, no padding."""

    def gate(self) -> Gate | None:
        """Gate on the embedding's gradient through the softmax in this update."""
        return None

    def target_offset(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor | None:
        """What is added to each position's target logit; may carry a gradient to the hidden states."""
        return None

    def token_weight(self) -> Tensor | None:
        """N: factor of a position's loss by its target."""
        return None

    def unlikelihood(self) -> Unlikelihood | None:
        """A penalty on the probability of tokens that stood earlier in the sequence."""
        return None

    def z_loss(self) -> float:
        """Weight of the squared logarithm of the softmax's normaliser, a position."""
        return 0.0

    def hidden_term(self, hidden: Tensor, targets: Tensor) -> Tensor | None:
        """A term of the hidden states, summed over the positions of a micro-batch whose target is no padding."""
        return None

    def input_term(self, embedding: Tensor, inputs: Sequence[Tensor]) -> Tensor | None:
        """A term of the rows that a model looks up, summed over the positions of a micro-batch.

        embedding: the input embedding, N x d; inputs: ids that were looked up, sequences x positions each, with padding.
        """
        return None

    def loss(
        self,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        *,
        head: Head = PLAIN,
        inputs: Sequence[Tensor] = (),
        input_embedding: Tensor | None = None,
    ) -> SummedLoss:
        """Summed loss of a micro-batch; hidden: sequences x positions x d, weight: N x d, targets: sequences x positions.

        head: what the model makes of hidden weight^T, where that is not all. inputs: ids that the model looked up, for
        objectives with a term of them; input_embedding: where, if not in weight. Without gradients (validation) it is the plain
        likelihood of the targets. Raises ValueError on an embedding that is not the facts', RuntimeError where begin_update was
        forgotten.
        """
        self._check(weight)
        plain = {"head": head, "label_smoothing": self.facts.label_smoothing, "ignore_index": self.facts.pad}
        if not torch.is_grad_enabled():
            return gated_linear_cross_entropy(hidden, weight, targets, **plain)
        if not self.has_begun and type(self).begin_update is not Objective.begin_update:
            name = type(self).__module__.rpartition(".")[2]
            raise RuntimeError(
                f"{name}: begin_update(counts) was not called; it comes before the losses of each update"
            )
        summed = gated_linear_cross_entropy(
            hidden,
            weight,
            targets,
            gate=self.gate(),
            z_loss=self.z_loss(),
            target_offset=self.target_offset(hidden, weight, targets),
            token_weight=self.token_weight(),
            unlikelihood=self.unlikelihood(),
            **plain,
        )
        terms = (
            self.hidden_term(hidden, targets),
            self.input_term(weight if input_embedding is None else input_embedding, inputs),
        )
        return SummedLoss(sum((term for term in terms if term is not None), summed.loss), summed.nll)

    def _check(self, weight: Tensor) -> None:
        if len(weight) != len(self.facts.counts):
            raise ValueError(
                f"the embedding matrix has {len(weight)} rows, the facts have counts of {len(self.facts.counts)} types"
            )

    def penalty(self, weight: Tensor) -> Tensor | None:
        """A term that does not depend on positions; added once an update to the mean loss."""
        return None

    def frozen_rows(self) -> Tensor | None:
        """N, bool: rows of the embedding matrix that this update must not change (gradient, decay and momentum)."""
        return None

    def end_update(self, weight: Tensor) -> None:
        """After the optimizer's step; weight is the embedding's new value."""

    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        """Optimizer over the parameter groups; the one with `embedding=True` holds the tied embedding matrix alone."""
        return torch.optim.AdamW(groups, fused=True, **adam)

    def about(self) -> dict[str, float]:
        """Numbers on this text before training, for training.json."""
        return {}

    def remarks(self) -> list[str]:
        """Lines for a person before training, such as what an option will hardly do on this text."""
        return []

    def report(self) -> dict[str, float]:
        """Numbers for the training log of this update."""
        return {}


def _told(begin_update: Callable[[Any, Tensor], None]) -> Callable[[Any, Tensor], None]:
    @wraps(begin_update)
    def checked(self: Objective, counts: Tensor) -> None:
        if counts.shape != self.facts.counts.shape:
            raise ValueError(f"counts of shape {tuple(counts.shape)}; the facts have {len(self.facts.counts)} types")
        begin_update(self, counts)
        self.has_begun = True

    return checked


@contextmanager
def keep_frozen_rows(objective: Objective, embedding: Tensor) -> Iterator[None]:
    """Around the optimizer's step: rows that the objective freezes keep their values, whatever decay and momentum do.

    A gradient of zero keeps the moments zero; putting the rows back undoes decoupled weight decay, to the bit.
    """
    frozen = objective.frozen_rows()
    if frozen is None:
        yield
        return
    if embedding.grad is not None:
        embedding.grad[frozen] = 0.0
    before = embedding.detach()[frozen]
    yield
    embedding.detach()[frozen] = before
