"""Counts of an update, which objectives are told before it.

What a training loop that is not ours tells an objective, and when.

    loop = Loop(objective, embedding)
    optimizer = loop.optimizer(model.parameters(), lr=1e-3)
    for batches in updates:
        loop.begin(batch.targets for batch in batches)             # before the first loss of an update
        for batch in batches:
            loop.loss(model(batch.inputs), batch.targets).backward()
        loop.step(optimizer)
        optimizer.zero_grad()

One process or several, with or without Accelerate, any number of micro-batches: the update is the same.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from raretokens.loss.objective import Objective, keep_frozen_rows
from raretokens.loss.terms import PLAIN, Head


def target_counts(targets: Iterable[Tensor], vocabulary: int, pad: int = -100) -> Tensor:
    """Occurrences of each type (N, int64) among the targets of an update: all of its micro-batches, without padding.

    With several processes the sum over all of them is wanted: `torch.distributed.all_reduce` the result. Raises ValueError on
    a target that is neither padding nor a type.
    """
    flat = torch.cat([part.reshape(-1) for part in targets])
    flat = flat[flat != pad]
    if flat.numel() and not 0 <= int(flat.min()) <= int(flat.max()) < vocabulary:
        raise ValueError(
            f"targets lie in {int(flat.min())}..{int(flat.max())}; allowed: 0..{vocabulary - 1}, and {pad} for padding"
        )
    return torch.bincount(flat, minlength=vocabulary)


class Loop:
    """Updates of an embedding matrix by an objective, in a loop of one's own.

    Args:
        embedding: the output embedding, N x d, one of the optimizer's parameters.
        head: bias, scale or soft-cap of the logits, where they are not hidden embedding^T alone.
        input_embedding: where the model looks up ids, if the embeddings are not tied.
        accelerator: that of Accelerate, if its backward() is called. It divides by its accumulation steps; the loss undoes that.

    A frozen embedding (requires_grad is False) stays as it is: gates, penalty, optimizer rule and the end of an update have
    nothing to act on, and a warning says so.

    Raises ValueError where the objective's facts are of another shape than the embedding.
    """

    def __init__(
        self,
        objective: Objective,
        embedding: Tensor,
        *,
        head: Head = PLAIN,
        input_embedding: Tensor | None = None,
        accelerator: Any = None,
    ) -> None:
        known = len(objective.facts.counts), objective.facts.width
        if tuple(embedding.shape) != known:
            raise ValueError(
                f"the embedding matrix is {' x '.join(map(str, embedding.shape))}, its facts are of {known[0]} x {known[1]}"
            )
        self.objective, self.embedding, self.head, self.input_embedding = objective, embedding, head, input_embedding
        self.factor = 1 if accelerator is None else accelerator.gradient_accumulation_steps
        self.left = self.micro_batches = 0  # of the update: without a loss so far, and all
        self.processes, self.targets = 1, 1
        if self.is_frozen:
            warnings.warn(
                "the output embedding is frozen (requires_grad is False): the objective acts through its loss alone, without "
                "gates, penalty or optimizer rule",
                stacklevel=2,
            )

    @property
    def is_frozen(self) -> bool:
        """Whether the embedding is no weight that trains."""
        return not self.embedding.requires_grad

    def optimizer(self, parameters: Iterable[Any], **adam: Any) -> torch.optim.Optimizer:
        """The objective's optimizer: AdamW, or a rule of its own for the embedding matrix.

        parameters: weights or groups of them, as torch's optimizers take them, the embedding among them; adam: lr, betas, eps,
        weight_decay. Raises ValueError where an embedding matrix that is not frozen is missing.
        """
        given = list(parameters)
        groups = [dict(group) for group in given] if given and isinstance(given[0], dict) else [{"params": given}]
        split = []
        for group in groups:
            weights = list(group["params"])
            for is_embedding in (True, False):
                chosen = [weight for weight in weights if (weight is self.embedding) == is_embedding]
                split += [{**group, "params": chosen, "embedding": is_embedding}] if chosen else []
        if not self.is_frozen and not any(group["embedding"] for group in split):
            raise ValueError("the embedding matrix is not among the optimizer's parameters")
        return self.objective.optimizer(split, **adam)

    def begin(self, targets: Iterable[Tensor]) -> None:
        """targets: of each micro-batch that this process takes in the update, int64, padding as in the facts.

        Every process calls it, with or without micro-batches.
        """
        parts, known = list(targets), self.objective.facts
        counts = torch.zeros_like(known.counts)
        if parts:
            counts = target_counts(parts, len(counts), known.pad)
        counts = counts.to(self.embedding.device)
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(counts)
            self.processes = distributed.get_world_size()
        self.targets = max(int(counts.sum()), 1)
        self.left = self.micro_batches = len(parts)
        self.objective.to(self.embedding.device)
        self.objective.begin_update(counts)

    def loss(self, hidden: Tensor, targets: Tensor, inputs: Sequence[Tensor] = ()) -> Tensor:
        """A micro-batch's share of the update's loss: the gradients of all micro-batches add up to those of the mean.

        Shapes as in Objective.loss. Where processes take the mean of their gradients, as torch's DistributedDataParallel does,
        that is the mean over the targets of all of them. The objective's penalty is in the last one. Raises RuntimeError where
        begin was told of fewer micro-batches.
        """
        if not self.left:
            raise RuntimeError(f"begin(targets) was told of {self.micro_batches} micro-batches; this is one more")
        self.left -= 1
        summed = self.objective.loss(
            hidden, self.embedding, targets, head=self.head, inputs=inputs, input_embedding=self.input_embedding
        )
        loss = summed.loss * (self.processes / self.targets)
        if not self.left and not self.is_frozen:
            with torch.autocast(self.embedding.device.type, enabled=False):
                penalty = self.objective.penalty(self.embedding)
            loss = loss if penalty is None else loss + penalty
        return loss * self.factor

    def step(self, optimizer: Any) -> None:
        """The optimizer's step, and what the objective does after it. Where gradients are clipped, `stepping` is for both."""
        with self.stepping():
            optimizer.step()

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Around clipping and the optimizer's step: frozen rows stay, whatever decay and momentum do, and are not clipped.

        Raises RuntimeError where a micro-batch that begin was told of had no loss.
        """
        if self.left:
            raise RuntimeError(f"{self.left} of the update's {self.micro_batches} micro-batches had no loss")
        if self.is_frozen:
            yield
            return
        with keep_frozen_rows(self.objective, self.embedding):
            yield
        self.objective.end_update(self.embedding)

    def state_dict(self) -> dict[str, Any]:
        """What must survive a resume beside model and optimizer."""
        return self.objective.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict() returned, from whatever device."""
        self.objective.to(self.embedding.device)
        self.objective.load_state_dict(_moved(state, self.embedding.device))


def _moved(tree: Any, device: torch.device) -> Any:
    """Its tensors on the device."""
    if isinstance(tree, Tensor):
        return tree.to(device)
    if isinstance(tree, dict):
        return {key: _moved(value, device) for key, value in tree.items()}
    return type(tree)(_moved(value, device) for value in tree) if isinstance(tree, (list, tuple)) else tree
