"""What a training objective may change. The defaults are maximum likelihood; a file in objectives/ overrides some of them.

One update runs `begin_update` once, `loss` on each micro-batch, `penalty` once, the optimizer's step, `end_update` once.
State that must survive a resume lives in buffers, parameters or extra state, so that state_dict() holds it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from raretokens.loss.facts import Facts
from raretokens.loss.gated_cross_entropy import Gate, SummedLoss, gated_linear_cross_entropy
from raretokens.loss.unlikelihood import Unlikelihood


class Objective(nn.Module):
    """Maximum likelihood with label smoothing, and the points where other objectives differ from it."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    def begin_update(self, counts: Tensor) -> None:
        """counts: N, int64, targets of the whole update by type: all micro-batches, all processes, no padding."""

    def gate(self) -> Gate | None:
        """Gate on the table's gradient through the softmax in this update."""
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

    def loss(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> SummedLoss:
        """Summed loss of a micro-batch; hidden: sequences x positions x d, weight: N x d, targets: sequences x positions.

        Without gradients (validation) it is the plain likelihood of the targets.
        """
        smoothing, pad = self.facts.label_smoothing, self.facts.pad
        if not torch.is_grad_enabled():
            return gated_linear_cross_entropy(hidden, weight, targets, label_smoothing=smoothing, ignore_index=pad)
        return gated_linear_cross_entropy(
            hidden,
            weight,
            targets,
            gate=self.gate(),
            label_smoothing=smoothing,
            target_offset=self.target_offset(hidden, weight, targets),
            token_weight=self.token_weight(),
            unlikelihood=self.unlikelihood(),
            ignore_index=pad,
        )

    def penalty(self, weight: Tensor) -> Tensor | None:
        """A term that does not depend on positions; added once an update to the mean loss."""
        return None

    def frozen_rows(self) -> Tensor | None:
        """N, bool: rows of the table that this update must not change (gradient, decay and momentum)."""
        return None

    def end_update(self, weight: Tensor) -> None:
        """After the optimizer's step; weight is the table's new value."""

    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        """Optimizer over the parameter groups; the one with `table=True` holds the tied table alone."""
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


@contextmanager
def keep_frozen_rows(objective: Objective, table: Tensor) -> Iterator[None]:
    """Around the optimizer's step: rows that the objective freezes keep their values, whatever decay and momentum do.

    A gradient of zero keeps the moments zero; putting the rows back undoes decoupled weight decay, to the bit.
    """
    frozen = objective.frozen_rows()
    if frozen is None:
        yield
        return
    if table.grad is not None:
        table.grad[frozen] = 0.0
    before = table.detach()[frozen]
    yield
    table.detach()[frozen] = before
