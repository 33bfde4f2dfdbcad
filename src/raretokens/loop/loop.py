"""Use of an objective in any training loop: `Loop` calls the objective's methods in the right order.

    loop = Loop(objective, embedding)
    optimizer = loop.optimizer(model.parameters(), lr=1e-3)
    for batches in steps:
        loop.begin(batch.targets for batch in batches)             # before the first loss of a training step
        for batch in batches:
            loop.loss(model(batch.inputs), batch.targets).backward()
        loop.step(optimizer)
        optimizer.zero_grad()

The training step does not depend on the number of processes or micro-batches, nor on the use of Accelerate, nor on whether FSDP2
shards the embedding.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map_only

from raretokens.errors import UserError
from raretokens.loop.row_shard import RowShard, is_sharded, whole
from raretokens.loss.objective import Objective, keep_frozen_rows
from raretokens.loss.position_weight import terms_without_weights, weighted_loss
from raretokens.loss.terms import PLAIN, Head, SummedLoss


def target_counts(targets: Iterable[Tensor], vocabulary: int, pad: int = -100) -> Tensor:
    """Count each type (N, int64) among the targets of a training step: all of its micro-batches, without padding.

    An objective needs the sum over all processes: with several, apply `torch.distributed.all_reduce` to the result.

    Raises:
        ValueError: if a target is neither padding nor a type.
    """
    if not isinstance(pad, int) or isinstance(pad, bool):
        raise ValueError(f"pad {pad} is not allowed: a whole number, which is -100 where targets without a loss have no id")
    parts = [part.reshape(-1) for part in targets]
    flat = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
    if flat.dtype == torch.bool or flat.is_floating_point():
        raise ValueError(f"targets of {flat.dtype} are not allowed: ids, int64")
    flat = flat[flat != pad]
    if flat.numel() and not 0 <= int(flat.min()) <= int(flat.max()) < vocabulary:
        raise ValueError(
            f"targets lie in {int(flat.min())}..{int(flat.max())}; allowed: 0..{vocabulary - 1}, and {pad} for padding"
        )
    return torch.bincount(flat, minlength=vocabulary)


def matrix_of(embedding: Tensor | nn.Module) -> Tensor:
    """Return an embedding matrix, which may be given as the module that contains it.

    Raises:
        TypeError: if there is no such matrix.
        UserError: if DeepSpeed ZeRO-3 shards the matrix.
    """
    matrix = getattr(embedding, "weight", embedding)
    if hasattr(matrix, "ds_id"):
        raise UserError("the embedding matrix is sharded by DeepSpeed ZeRO-3: should be whole, or sharded by fully_shard (FSDP2)")
    if not isinstance(matrix, Tensor) or matrix.dim() != 2:
        raise TypeError(f"embedding {type(embedding).__name__} is not allowed: a parameter N x d, nn.Embedding or nn.Linear")
    return matrix


class Loop:
    """Connection of an objective to a custom training loop.

    Args:
        objective: the objective, such as `build` returns.
        embedding: the output embedding, N x d, one of the optimizer's parameters; or its module, such as an nn.Linear, whose
            bias then belongs to the head.
        head: bias, scale or soft-cap of the logits, if the logits are not hidden embedding^T alone.
        input_embedding: the input embedding or its module, if the embeddings are not tied.
        accelerator: the Accelerator whose backward() is called, if any. It divides the loss by its accumulation steps, and
            `loss` compensates for that.
        vocabulary_parallel: for an embedding that is sharded by rows, whether each process computes the logits of its own rows
            for the positions of all processes (loop/sharded.py). Otherwise each process gathers the embedding for each loss.

    An embedding that `fully_shard` of FSDP2 has sharded stays sharded. Penalties, frozen rows, optimizer rules and `end_step`
    then act on each process' own rows, and every process must call `loss` equally often.

    A frozen embedding (requires_grad is False) never changes. Gates, penalty, optimizer rule and `end_step` then have no
    effect, and a warning reports this.

    Raises:
        ValueError: if the shapes of the objective's facts and the embedding differ, or the embedding is computed from weights.
        UserError: if the embedding is sharded in another way, or vocabulary_parallel does not suit embedding or objective.
    """

    def __init__(
        self,
        objective: Objective,
        embedding: Tensor | nn.Module,
        *,
        head: Head = PLAIN,
        input_embedding: Tensor | nn.Module | None = None,
        accelerator: Any = None,
        vocabulary_parallel: bool = False,
    ) -> None:
        if head.bias is None:
            head = head._replace(bias=getattr(embedding, "bias", None))
        self._module = embedding  # or the matrix
        embedding = matrix_of(embedding)
        input_embedding = None if input_embedding is None else matrix_of(input_embedding)
        known = len(objective.facts.counts), objective.facts.width
        if tuple(embedding.shape) != known:
            raise ValueError(
                f"the embedding matrix is {' x '.join(map(str, embedding.shape))}, its facts are of {known[0]} x {known[1]}"
            )
        if not embedding.is_leaf:
            raise ValueError("the embedding matrix is computed from other weights; should be one that an optimizer trains")
        self.objective, self.embedding, self.head, self.input_embedding = objective, embedding, head, input_embedding
        self.shard = RowShard(embedding) if is_sharded(embedding) else None
        self.vocabulary_parallel = vocabulary_parallel
        if vocabulary_parallel:
            _check_vocabulary_parallel(objective, self.shard)
        self.in_step = False  # whether a step has begun and not ended
        self._optimizers: list[Any] = []  # those that `optimizer` returned
        self.factor = 1 if accelerator is None else accelerator.gradient_accumulation_steps
        self.left = self.micro_batches = 0  # micro-batches of the step: without a loss so far, and all
        self.processes, self.targets = 1, 1
        self.own_targets, self.seen_targets = 0, torch.tensor(0)  # of this process and step: given to `begin`, and to `loss`
        if any(len(kept) != known[0] for kept in self._embeddings_with_frozen_rows()):
            raise ValueError(f"the input embedding has {len(input_embedding)} rows, the output embedding {known[0]}")
        if self.is_frozen:
            warnings.warn(
                "the output embedding is frozen (requires_grad is False): the objective acts through its loss alone, without "
                "gates, penalty or optimizer rule",
                stacklevel=2,
            )

    @property
    def is_frozen(self) -> bool:
        """Whether the embedding matrix is excluded from training."""
        return not self.embedding.requires_grad

    def optimizer(self, parameters: Iterable[Any], **adam: Any) -> torch.optim.Optimizer:
        """Return the objective's optimizer: AdamW, or a rule of its own for the embedding matrix.

        Args:
            parameters: weights, their names and weights, or parameter groups, as for torch optimizers. They include the
                embedding matrix.
            adam: lr, betas, eps, weight_decay.

        Raises:
            ValueError: if the embedding matrix is missing and not frozen, or if weights are given twice.
        """
        given = list(parameters)
        groups = [dict(group) for group in given] if given and isinstance(given[0], dict) else [{"params": given}]
        split, known = [], set[Tensor]()
        for group in groups:
            weights = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            weights = [weight[1] if isinstance(weight, tuple) else weight for weight in weights]  # of named_parameters()
            if len(known | {*weights}) < len(known) + len(weights):  # each step would change them twice
                raise ValueError("weights are given twice: model.parameters() includes the embedding of a model that contains it")
            known |= {*weights}
            for is_embedding in (True, False):
                chosen = [weight for weight in weights if (weight is self.embedding) == is_embedding]
                split += [{**group, "params": chosen, "embedding": is_embedding}] if chosen else []
        if not self.is_frozen and not any(group["embedding"] for group in split):
            raise ValueError("the embedding matrix is not among the optimizer's parameters")
        optimizer = self.objective.optimizer(split, **adam)
        if self.shard is not None:
            from raretokens.loop.sharded_rules import sharded_optimizer

            optimizer = sharded_optimizer(optimizer)
        self._optimizers.append(optimizer)
        return optimizer

    def begin(self, targets: Iterable[Tensor]) -> None:
        """Begin a training step. Every process must call this method, even without micro-batches.

        targets: targets of each micro-batch of this process, int64, with the padding id of the facts.

        Raises:
            RuntimeError: if the step before did not end with `step` or `stepping`, or its losses had more or fewer targets than
                its `begin`; or if the embedding was sharded after this Loop was created.
        """
        if self.shard is None and is_sharded(matrix_of(self._module)):
            raise RuntimeError("fully_shard has replaced the embedding matrix: create Loop and optimizer after fully_shard")
        was_in_step, self.in_step = self.in_step, False
        if was_in_step and self.left < self.micro_batches:
            self.left = self.micro_batches = self.own_targets = 0
            self.seen_targets = torch.zeros_like(self.seen_targets)
            applies, drop = f"which applies {self.objective.name}", "call optimizer.zero_grad() in `with loop.stepping():`"
            raise RuntimeError(f"the step before had losses but no loop.step(optimizer), {applies}; to drop a step, {drop}")
        given, seen = self.own_targets, int(self.seen_targets)  # read here, where a GPU has to wait for the counts anyway
        is_whole, self.own_targets, self.seen_targets = not self.left, 0, torch.zeros_like(self.seen_targets)
        if is_whole and seen != given:
            raise RuntimeError(f"begin(targets) was given {given} targets in the step before, and its losses {seen}")
        parts, known = list(targets), self.objective.facts
        counts = target_counts(parts, len(known.counts), known.pad) if parts else torch.zeros_like(known.counts)
        self.own_targets = targets_of_all = int(counts.sum())
        counts = counts.to(self.embedding.device)
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(counts)
            self.processes, targets_of_all = distributed.get_world_size(), int(counts.sum())
        self.targets = max(targets_of_all, 1)
        self.left = self.micro_batches = len(parts)
        self.in_step = True
        self.objective.to(self.embedding.device)
        self.objective.begin_step(counts)

    def loss(
        self, hidden: Tensor, targets: Tensor, inputs: Sequence[Tensor] = (), *, position_weight: Tensor | None = None
    ) -> Tensor:
        """Return a micro-batch's share of the step's loss; shapes as in Objective.loss.

        The gradients of all micro-batches add up to those of the mean over all targets. With several processes, gradients must be
        averaged over processes, as torch's DistributedDataParallel does. The last micro-batch contains the objective's penalty.

        position_weight: factor of each position's loss, of the targets' shape, without a gradient. The mean stays one over the
            number of targets, so weights with a mean of 1 keep the size of the loss. A target of weight 0 still counts in
            `begin`, for instance for the types that AGG calls rare.

        Raises:
            TypeError: if inputs is a tensor.
            UserError: if the objective or vocabulary_parallel allows no weight of a position.
            RuntimeError: if `begin` got fewer micro-batches, or gradients are disabled.
        """
        if not torch.is_grad_enabled():
            how = "divide the sum of loop.nll(hidden, targets) by the number of targets"
            raise RuntimeError(f"loop.loss is of training, and gradients are disabled; to evaluate, {how}")
        if not self.left:
            raise RuntimeError(f"begin(targets) was given the targets of {self.micro_batches} micro-batches; this is one more")
        if isinstance(inputs, Tensor):
            raise TypeError("inputs is a tensor; should be a sequence of tensors of ids (weights: position_weight=...)")
        loss = self._summed_loss(hidden, targets, inputs, position_weight).loss * (self.processes / self.targets)
        self.left -= 1
        self.seen_targets = self.seen_targets.to(targets.device) + (targets != self.objective.facts.pad).sum()
        if not self.left and not self.is_frozen:
            with torch.autocast(self.embedding.device.type, enabled=False):
                penalty = self._penalty()
            loss = loss if penalty is None else loss + penalty
        return loss * self.factor

    @torch.no_grad()
    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of -log p of the targets (natural logarithm), for evaluation.

        All processes must call this together if the embedding is sharded. Each gets the sum over its own targets.
        """
        return self._summed_loss(hidden, targets, ()).nll

    def _summed_loss(
        self, hidden: Tensor, targets: Tensor, inputs: Sequence[Tensor], position_weight: Tensor | None = None
    ) -> SummedLoss:
        if position_weight is not None and self.vocabulary_parallel:
            raise UserError("position_weight is not allowed with vocabulary_parallel; allowed: Loop without vocabulary_parallel")
        if self.vocabulary_parallel:
            from raretokens.loop.sharded import sharded_loss

            return sharded_loss(self.objective, hidden, self.shard, targets, self.head)
        if self.shard is not None and hidden.device != self.embedding.device:
            raise UserError(f"the embedding matrix is on {self.embedding.device}, the states on {hidden.device}: no CPU offload")
        weight, looked_up = whole(self.embedding), self.input_embedding
        if self.shard is not None and type(self.objective).input_term is Objective.input_term:
            looked_up = None  # not gathered, because nothing reads the input embedding
        head, looked_up = self.head._replace(bias=whole(self.head.bias)), whole(looked_up)
        if position_weight is None and self._would_gate_bias(hidden):
            position_weight = torch.ones(targets.shape)
        if position_weight is not None:
            return weighted_loss(self.objective, hidden, weight, targets, position_weight, head)
        return self.objective.loss(hidden, weight, targets, head=head, inputs=inputs, input_embedding=looked_up)

    def _would_gate_bias(self, hidden: Tensor) -> bool:
        """Return whether `Objective.loss` would gate the gradient of the logits' bias, too, as it does in bfloat16 on a CPU."""
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        if self.head.bias is None or device != "cpu" or dtype != torch.bfloat16 or self.objective.gate() is None:
            return False
        if terms_without_weights(self.objective):
            what = f"{self.objective.name} with a bias of the logits, in bfloat16 on a CPU"
            raise UserError(f"{what}: its gate would act on the bias, too; allowed: float32, or no bias")
        return True

    def _penalty(self) -> Tensor | None:
        if self.shard is None:
            return self.objective.penalty(self.embedding)
        from raretokens.loop.sharded_rules import penalty

        return penalty(self.objective, self.shard)

    def step(self, optimizer: Any) -> None:
        """Run the optimizer's step and the objective's `end_step`. To clip gradients, use `stepping` instead."""
        with self.stepping():
            optimizer.step()

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Context for gradient clipping and the optimizer's step, which end the training step.

        Frozen rows keep their values despite weight decay and momentum, and their gradients do not count in the clipped norm.

        Raises:
            RuntimeError: if the step was not begun, a micro-batch of `begin` had no loss, or the objective has an optimizer rule
                and another optimizer takes the step.
        """
        if not self.in_step:
            raise RuntimeError("no step to end: loop.begin(targets) begins each step")
        if self.left:
            told = "begin() takes a list with the targets of each micro-batch"
            raise RuntimeError(f"{self.left} of the step's {self.micro_batches} micro-batches had no loss; {told}")
        self.in_step = False
        with ExitStack() as kept:
            kept.enter_context(register_optimizer_step_pre_hook(self._check_optimizer))
            for embedding in self._embeddings_with_frozen_rows():
                kept.enter_context(self._frozen_rows_kept(embedding))
            yield
        if self.is_frozen:
            return
        if self.shard is None:
            self.objective.end_step(self.embedding)
        else:
            from raretokens.loop.sharded_rules import end_step

            end_step(self.objective, self.shard)

    def _frozen_rows_kept(self, embedding: Tensor) -> AbstractContextManager[None]:
        if not is_sharded(embedding):
            return keep_frozen_rows(self.objective, embedding)
        shard = self.shard if embedding is self.embedding else RowShard(embedding)
        return shard.keep_rows(self.objective.frozen_rows())

    @property
    def has_optimizer_rule(self) -> bool:
        """Whether the optimizer that trains the embedding matrix has to be that of `optimizer`."""
        is_own = type(self.objective).optimizer is not Objective.optimizer
        return is_own and getattr(self.objective, "form", "") != "l2"  # weight decay has a form without an optimizer rule

    def _check_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Raise RuntimeError if an optimizer other than the objective's is about to change the embedding matrix."""
        if self.is_frozen or not self.has_optimizer_rule or any(optimizer is own for own in self._optimizers):
            return
        if any(weight is self.embedding for group in optimizer.param_groups for weight in group["params"]):
            kind = type(optimizer).__name__
            raise RuntimeError(f"{self.objective.name} is an optimizer rule, which this {kind} lacks: use loop.optimizer(...)")

    def _embeddings_with_frozen_rows(self) -> list[Tensor]:
        """Return the trained embeddings in which the objective freezes rows."""
        embeddings = [self.embedding]
        if self.input_embedding is not None and self.input_embedding is not self.embedding:
            embeddings += [self.input_embedding] if getattr(self.objective, "freezes_input_rows", False) else []
        return [embedding for embedding in embeddings if embedding.requires_grad]

    def state_dict(self) -> dict[str, Any]:
        """Return the objective's state, to save with the states of model and optimizer."""
        return self.objective.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` returned, from any device."""
        device = self.embedding.device
        self.objective.to(device)
        self.objective.load_state_dict(tree_map_only(Tensor, lambda tensor: tensor.to(device), state))


def _check_vocabulary_parallel(objective: Objective, shard: RowShard | None) -> None:
    if shard is None:
        raise UserError("vocabulary_parallel is not allowed with a whole embedding matrix: shard the model by fully_shard first")
    from raretokens.loop.sharded import check_objective

    check_objective(objective, shard)
