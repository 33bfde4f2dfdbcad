"""The output embedding of a transformers model, and how the model computes its loss.

`try_model` finds this out by running the model on a batch, instead of relying on its class. The model runs twice on two
sequences: first unchanged, then with states so large that a soft-cap has a visible effect. In both runs its logits must follow
from the states before the output embedding, without other trainable weights. Its loss must be the mean negative log-likelihood
of the labels, plus a balancing loss of routers that the trainer can add. Any other model is rejected with an error.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, pad

from raretokens.errors import UserError
from raretokens.loop.row_shard import whole
from raretokens.loss.logits_objective import head_logits
from raretokens.loss.terms import Head

IGNORED = -100  # label of positions without a target, as everywhere in transformers
LARGE = 100.0  # highest logit in the test for a soft-cap; a cap of 30 has a visible effect
OF_LOGITS, OF_LOGITS_HALF = 1e-4, 2e-2  # relative to the highest logit: in float32, in 16 bits
OF_LOSS = 2e-5  # relative tolerance of a float32 loss, which is a mean over the same logits
COEFFICIENTS = ("router_aux_loss_coef", "aux_loss_coef")  # names in model configurations


class OutputEmbedding:
    """The output embedding, tied or not, of a model with get_output_embeddings().

    Raises:
        UserError: if the model has no output embedding.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, type(model).__name__
        found = getattr(model, "get_output_embeddings", lambda: None)()
        weight, kind = getattr(found, "weight", None), None if found is None else type(found).__name__
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or not weight.is_floating_point():
            raise UserError(f"{self.name}: has no output embedding of types x width: get_output_embeddings() gives {kind}")
        self.module: Any = found
        self.omits_logits = False  # whether a sharded output embedding computes none

    @property
    def weight(self) -> nn.Parameter:
        """The embedding matrix, N x d."""
        return self.module.weight

    @property
    def text_config(self) -> Any:
        """The configuration of the model, or of its text part. None if the model has no configuration."""
        config = getattr(self.model, "config", None)
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    @property
    def head(self) -> Head:
        """Bias, scale and soft-cap that the model applies to the product of states and embedding matrix.

        Scale and soft-cap have several names in the configurations of transformers.
        """
        config = self.text_config
        bias, added = getattr(self.module, "bias", None), getattr(self.model, "final_logits_bias", None)
        if added is not None:
            bias = added.squeeze(0) if bias is None else bias + added.squeeze(0)
        scale = (getattr(config, "logit_scale", None) or 1.0) / (getattr(config, "logits_scaling", None) or 1.0)
        return Head(bias, scale, getattr(config, "final_logit_softcapping", None))

    @property
    def whole(self) -> tuple[Tensor, Head]:
        """The whole embedding matrix and the head, without gradients. All processes of a sharded model must read it together."""
        with torch.no_grad():
            head = self.head
            return whole(self.weight).detach(), head._replace(bias=whole(head.bias))

    def states(self, forward: Callable[..., Any], inputs: Mapping[str, Any], *, is_whole: bool) -> tuple[Tensor, Any]:
        """Return the states (sequences x positions x d) that are multiplied with the embedding, and the model's outputs.

        `forward` is the model, possibly wrapped for several processes. Its inputs have no labels. Unless `is_whole`, only the
        logits of the last position are computed, to save memory, and none if the embedding is sharded.
        """
        seen: list[Tensor] = []

        def record(_module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            seen.append(given[0])
            return None if is_whole else (given[0][:, -1:],)

        self.omits_logits = not is_whole
        try:
            with self.module.register_forward_pre_hook(record):
                outputs = forward(**inputs)
        finally:
            self.omits_logits = False
        return self.only(seen), outputs

    def only(self, seen: list[Tensor]) -> Tensor:
        """Return the states that the output embedding received. Raise UserError unless there is exactly one 3-d tensor."""
        if len(seen) != 1 or seen[0].dim() != 3:
            shapes = [tuple(states.shape) for states in seen]
            raise UserError(
                f"{self.name}: its output embedding met states {shapes}; should be once, sequences x positions x d"
            )
        return seen[0]


class ModelLoss(NamedTuple):
    """How a model computes its loss from its logits."""

    shifts_labels: bool  # whether the loss compares a label with the logits at the previous position
    prefix: int  # positions before those of the labels, such as virtual tokens of prompt tuning
    auxiliary: float  # coefficient of outputs.aux_loss, the balancing loss of routers

    def targets(self, labels: Tensor) -> Tensor:
        """Return the targets at the first positions of the states (sequences x positions)."""
        labels = pad(labels, (self.prefix, 0), value=IGNORED)
        return labels[:, 1:] if self.shifts_labels else labels


class _Run(NamedTuple):
    states: Tensor
    outputs: Any
    labels: Tensor


def try_model(output: OutputEmbedding, inputs: Mapping[str, Any], labels: Tensor) -> ModelLoss:
    """Return how the model computes its loss from its logits, by a batch of inputs and labels (sequences x positions).

    If the labels contain too few targets, artificial labels are used.

    Raises:
        UserError: if the logits do not follow from `output.head`, or the loss has terms that the trainer cannot add.
    """
    rows = (labels != IGNORED).sum(1).argsort(descending=True)[:2]
    sample = {
        name: value[rows] if isinstance(value, Tensor) and len(value) == len(labels) else value
        for name, value in inputs.items()
    }
    labels = _enough(labels[rows], sample.get("attention_mask"), len(output.weight))
    with torch.enable_grad():
        runs = [_run(output, sample, labels)]
        _check_weights(output, runs[0])
    with torch.no_grad():
        runs += [_run(output, sample, labels, LARGE)]
        return _how(output, runs)


def _how(output: OutputEmbedding, runs: list[_Run]) -> ModelLoss:
    prefix = runs[0].states.shape[1] - runs[0].labels.shape[1]
    if prefix < 0:
        raise UserError(f"{output.name}: gives logits of {-prefix} positions fewer than there are labels")
    for run in runs:
        _check_logits(output, run)
    both = {shifts: ModelLoss(shifts, prefix, 0.0) for shifts in (True, False)}
    shifts = min(both, key=lambda one: abs(_mean(runs[1], both[one]) - float(runs[1].outputs["loss"])))
    known = [both[shifts]._replace(auxiliary=factor) for factor in (*_coefficients(output), 0.0)]
    for found in known:
        if all(_explains(found, run) for run in runs):
            return found
    means = [f"{_mean(runs[0], one):.6g}" for one in both.values()]
    raise UserError(
        f"{output.name}: its own loss is {float(runs[0].outputs['loss']):.6g} where the likelihood of the labels is {means[0]} "
        f"(of the next position) or {means[1]} (of their own): it has terms that an objective would drop"
    )


def _enough(labels: Tensor, mask: Tensor | None, types: int) -> Tensor:
    """Return the labels, or artificial labels if a model that shifts its labels would have no target."""
    if (labels[:, 1:] != IGNORED).any():
        return labels
    numbers = torch.arange(labels.numel(), device=labels.device).view_as(labels)
    made = (7 * numbers + 3) % types
    return made if mask is None or mask.shape != labels.shape else made.masked_fill(mask == 0, IGNORED)


def _run(output: OutputEmbedding, sample: Mapping[str, Any], labels: Tensor, large: float | None = None) -> _Run:
    """Run the model on a sample in evaluation mode. The recorded states have no gradient.

    `large` rescales the states so that the highest logit before bias, scale and soft-cap has this absolute value.
    """
    seen: list[Tensor] = []

    def record(_module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states = given[0].detach()
        if large is not None:
            highest = linear(states.float(), output.whole[0].float()).abs().max()
            states = states * (large / highest.clamp(min=1e-6)).to(states.dtype)
        seen.append(states)
        return (states,)

    was_training = output.model.training
    output.model.eval()
    try:
        with output.module.register_forward_pre_hook(record):
            outputs = output.model(**sample, labels=labels)
    finally:
        output.model.train(was_training)
    return _Run(output.only(seen), outputs, labels)


def _check_weights(output: OutputEmbedding, run: _Run) -> None:
    """Raise UserError if the logits depend on trainable weights other than the embedding and its bias."""
    given, known = run.outputs.get("logits"), (output.weight, getattr(output.module, "bias", None))
    named = {weight: name for name, weight in output.model.named_parameters()}
    others = [leaf for leaf in _leaves(given) if not any(leaf is one for one in known)]
    if reached := [named.get(leaf, f"a weight of {' x '.join(map(str, leaf.shape))}") for leaf in others]:
        raise UserError(
            f"{output.name}: its logits depend on weights that an objective would not train: {', '.join(reached)}; LoRA of the "
            "output embedding and a bias outside of its module are not supported"
        )


def _leaves(given: Tensor | None) -> Iterator[Tensor]:
    """Return the tensors without a computation that would get a gradient from this one, found without the gradients.

    The weights that FSDP2 has gathered for a forward pass are other tensors than the model's parameters.
    """
    left, seen = [None if given is None else given.grad_fn], set[Any]()
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [one for one, _ in node.next_functions]
            if hasattr(node, "variable"):
                yield node.variable


def _check_logits(output: OutputEmbedding, run: _Run) -> None:
    weight, head = output.whole
    expected = head_logits(run.states.to(weight.dtype), weight, head)
    given = run.outputs.get("logits")
    if given is None or run.outputs.get("loss") is None or given.shape != expected.shape:
        raise UserError(f"{output.name}: should give logits of all positions and a loss of the labels")
    is_half = min(torch.finfo(one.dtype).bits for one in (given, run.states, weight)) < 32
    is_half |= torch.is_autocast_enabled(given.device.type)
    highest, difference = float(expected.abs().max()), float((given.detach().float() - expected).abs().max())
    if not difference <= (OF_LOGITS_HALF if is_half else OF_LOGITS) * max(highest, 1.0):
        raise UserError(
            f"{output.name}: its logits are not those of its output embedding, {output.head._replace(bias=None)}: where the "
            f"highest is {highest:.3g} they differ by {difference:.3g}; only a bias, a scale and a soft-cap are supported"
        )


def _mean(run: _Run, how: ModelLoss, dtype: torch.dtype = torch.float32) -> float:
    """Return the mean -log p of the targets from the model's own logits, computed in `dtype`."""
    targets = how.targets(run.labels)
    given = run.outputs["logits"][:, : targets.shape[1]].to(dtype)
    return float(cross_entropy(given.flatten(0, 1), targets.flatten(), ignore_index=IGNORED))


def _explains(how: ModelLoss, run: _Run) -> bool:
    """Whether `how` gives the model's loss, up to rounding. Some models use the dtype of the logits, not float32."""
    loss, auxiliary = run.outputs["loss"], run.outputs.get("aux_loss")
    if how.auxiliary and auxiliary is None:
        return False
    more = how.auxiliary * float(auxiliary) if how.auxiliary else 0.0
    expected = [_mean(run, how, dtype) + more for dtype in (torch.float32, run.outputs["logits"].dtype)]
    share = max(OF_LOSS, torch.finfo(loss.dtype).eps)
    return any(abs(float(loss) - one) <= share * max(abs(one), 1.0) for one in expected)


def _coefficients(output: OutputEmbedding) -> list[float]:
    """Return the coefficients of the balancing loss that the model or its configuration defines."""
    sources = (output.model, output.text_config, getattr(output.model, "config", None))
    found = (getattr(source, name, None) for source in sources for name in COEFFICIENTS)
    return [float(value) for value in dict.fromkeys(found) if isinstance(value, int | float) and value]
