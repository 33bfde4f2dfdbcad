"""Base class of training objectives: maximum likelihood, with methods that the files in objectives/ override.

A training step runs `begin_step` once, `loss` on each micro-batch, `penalty` once, the optimizer's step, and `end_step` once.
State that must survive a resume belongs in buffers, parameters or extra state, so that state_dict() contains it.
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
    """Maximum likelihood with label smoothing. Subclasses override the methods in which they differ."""

    has_begun = False  # whether begin_step was called
    counts_on_host = False  # whether the training loop leaves the counts of begin_step on the CPU

    def __init__(self, facts: Facts, **options: Any) -> None:
        """Keep the facts, and each option that a subclass declares as an attribute of its name.

        Raises:
            ValueError: the objective already has an attribute of that name.
        """
        super().__init__()
        self.facts = facts
        for name, value in options.items():
            if hasattr(self, name):
                raise ValueError(f"option {name!r} is the name of an attribute or method; allowed: any other name")
            setattr(self, name, value)

    @property
    def name(self) -> str:
        """Name of the objective's file, for messages."""
        return type(self).__module__.rpartition(".")[2]

    def __init_subclass__(cls, **settings: Any) -> None:
        """Wrap an overridden `begin_step` with a check of its counts, so that `loss` can detect a missing call."""
        super().__init_subclass__(**settings)
        if "begin_step" in vars(cls):
            cls.begin_step = _with_check(cls.begin_step)  # type: ignore[method-assign]

    def begin_step(self, counts: Tensor) -> None:
        """Prepare a training step; counts: N, int64, its targets by type, over all micro-batches and processes, no padding."""

    def gate(self) -> Gate | None:
        """Return the gate on the embedding's gradient through the softmax in this training step."""
        return None

    def target_offset(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor | None:
        """Return the term added to each position's target logit; it may send a gradient to the hidden states."""
        return None

    def token_weight(self) -> Tensor | None:
        """Return the factor of a position's loss by its target (N)."""
        return None

    def unlikelihood(self) -> Unlikelihood | None:
        """Return the settings of the penalty on the probability of tokens that occurred earlier in the sequence."""
        return None

    def z_loss(self) -> float:
        """Return the weight of the squared logarithm of the softmax normaliser in each position's loss."""
        return 0.0

    def hidden_term(self, hidden: Tensor, targets: Tensor) -> Tensor | None:
        """Return a loss term of the hidden states, summed over the positions of a micro-batch without padding."""
        return None

    def input_term(self, embedding: Tensor, inputs: Sequence[Tensor]) -> Tensor | None:
        """Return a loss term of the rows that the model looks up, summed over the positions of a micro-batch.

        embedding: the input embedding, N x d; inputs: ids that the model looked up, sequences x positions each, with padding.
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
        rows: Tensor | None = None,
    ) -> SummedLoss:
        """Return the summed loss of a micro-batch. Without gradients (validation), the loss is the plain likelihood.

        Args:
            hidden: sequences x positions x d.
            weight: output embedding, N x d.
            targets: sequences x positions.
            head: bias, scale or soft-cap of the logits.
            inputs: ids that the model looked up, for objectives with an input_term.
            input_embedding: matrix of that look-up, if different from weight.
            rows: flat indices of all positions with a target, if they are known, as in `gated_linear_cross_entropy`.

        Raises:
            ValueError: if weight and facts have different numbers of types.
            RuntimeError: if begin_step was not called.
        """
        if len(weight) != len(self.facts.counts):
            types = len(self.facts.counts)
            raise ValueError(f"the embedding matrix has {len(weight)} rows, the facts have counts of {types} types")
        plain = {"head": head, "label_smoothing": self.facts.label_smoothing, "ignore_index": self.facts.pad, "rows": rows}
        if not torch.is_grad_enabled():
            return gated_linear_cross_entropy(hidden, weight, targets, **plain)
        if not self.has_begun and type(self).begin_step is not Objective.begin_step:
            raise RuntimeError(f"{self.name}: begin_step(counts) was not called; it comes before the losses of each step")
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

    def penalty(self, weight: Tensor) -> Tensor | None:
        """Return a term that does not depend on positions; it is added once per training step to the mean loss."""
        return None

    def frozen_rows(self) -> Tensor | None:
        """Return a mask (N, bool) of embedding rows that this step must not change by gradient, weight decay or momentum."""
        return None

    def end_step(self, weight: Tensor) -> None:
        """Finish a training step after the optimizer's step; weight: the new embedding matrix."""

    def optimizer(self, groups: Iterable[dict], **adam: float) -> torch.optim.Optimizer:
        """Return the optimizer; the parameter group with `embedding=True` contains only the tied embedding matrix."""
        return torch.optim.AdamW(groups, fused=True, **adam)

    def about(self) -> dict[str, float]:
        """Return numbers about the objective on this text before training, for training.json."""
        return {}

    def remarks(self) -> list[str]:
        """Return messages to print before training, such as a warning that an option has little effect on this text."""
        return []

    def report(self) -> dict[str, float | Tensor]:
        """Return numbers for this step's row of the training log. A tensor with one number stays on its device."""
        return {}


def read_numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with tensors of one number as Python numbers. A GPU is waited for only once."""
    tensors = {name: value.detach() for name, value in values.items() if isinstance(value, Tensor)}
    numbers = torch.stack([tensor.double() for tensor in tensors.values()]).tolist() if tensors else []
    read = zip(tensors.items(), numbers, strict=True)
    return values | {name: number if tensor.is_floating_point() else int(number) for (name, tensor), number in read}


def _with_check(begin_step: Callable[[Any, Tensor], None]) -> Callable[[Any, Tensor], None]:
    @wraps(begin_step)
    def checked(self: Objective, counts: Tensor) -> None:
        if counts.shape != self.facts.counts.shape:
            raise ValueError(f"counts of shape {tuple(counts.shape)}; the facts have {len(self.facts.counts)} types")
        begin_step(self, counts)
        self.has_begun = True

    return checked


class CountingObjective(Objective):
    """Objective that needs the number of the training step, which the host knows without a wait for the GPU."""

    number = 0  # of the present step, from 1

    def __init__(self, facts: Facts, **options: Any) -> None:
        super().__init__(facts, **options)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))  # the same number, for state_dict()

    def begin_step(self, counts: Tensor) -> None:
        self.number += 1
        self.updates.fill_(self.number)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.number = int(self.updates)


class RowsObjective(Objective):
    """Objective that acts on the embedding rows that text can use, which exclude padding and fillers."""

    def __init__(self, facts: Facts, **options: Any) -> None:
        super().__init__(facts, **options)
        self.register_buffer("used", facts.used_ids, persistent=False)

    def rows(self, weight: Tensor) -> Tensor:
        """Return the used rows of an embedding matrix, at least in float32."""
        return weight[self.used].to(torch.promote_types(weight.dtype, torch.float32))


@contextmanager
def keep_frozen_rows(objective: Objective, embedding: Tensor) -> Iterator[None]:
    """Context for the optimizer's step in which frozen rows keep their values despite weight decay and momentum.

    Zero gradients keep the moments zero. Restoring the rows undoes decoupled weight decay exactly.
    """
    frozen = objective.frozen_rows()
    if frozen is None:
        yield
        return
    rows = _indices(objective, frozen)
    if embedding.grad is not None:
        embedding.grad.index_fill_(0, rows, 0.0)
    before = embedding.detach()[rows]
    yield
    embedding.detach()[rows] = before


def _indices(objective: Objective, mask: Tensor) -> Tensor:
    """Return the indices of a mask. They are kept while the objective uses the same mask, because a GPU waits for them."""
    kept = vars(objective).get("_kept_indices")
    if kept is None or kept[0] is not mask or kept[1] != mask._version:
        kept = mask, mask._version, mask.nonzero().squeeze(1)
        vars(objective)["_kept_indices"] = kept
    return kept[2]
