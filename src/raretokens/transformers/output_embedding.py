"""The output embedding of a model of transformers: the states before it, its logits, and perplexity by frequency group.

What a class does of its own is tried on a batch rather than known: that its logits follow from the states before the output
embedding, and whether its loss compares labels with the position before them. A model that does something else is refused, never
trained wrongly.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from raretokens.errors import UserError
from raretokens.loss.facts import Facts
from raretokens.loss.terms import Head

IGNORED = -100  # label of a position without a target, in all of transformers
LARGE, TOLERANCE = 100.0, 2.0  # of logits when a model is tried: a cap of 30 shows there, rounding of bfloat16 does not
MAX_POSITIONS = 1024  # whose logits are in memory at once
GROUP_NAMES = ("freq", "med", "rare")
FREQUENT = 3 / 8  # of the types that are not rare: 30, 50 and 20 % of all, if the usual fifth is rare


class OutputEmbedding:
    """The output embedding of a model with get_output_embeddings(), tied or not. Raises UserError if there is none."""

    def __init__(self, model: Any) -> None:
        self.model, self.name = model, type(model).__name__
        found = getattr(model, "get_output_embeddings", lambda: None)()
        weight = getattr(found, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or not weight.is_floating_point():
            raise UserError(
                f"{self.name}: has no output embedding of types x width: get_output_embeddings() is {found!r}"
            )
        self.module: Any = found

    @property
    def weight(self) -> nn.Parameter:
        """N x d."""
        return self.module.weight

    @property
    def head(self) -> Head:
        """What the model does to the product: bias, scale and soft-cap, by the names of transformers' configurations."""
        config = getattr(self.model, "config", None)
        config = config.get_text_config() if hasattr(config, "get_text_config") else config
        bias, added = getattr(self.module, "bias", None), getattr(self.model, "final_logits_bias", None)
        if added is not None:
            bias = added.squeeze(0) if bias is None else bias + added.squeeze(0)
        scale = (getattr(config, "logit_scale", None) or 1.0) / (getattr(config, "logits_scaling", None) or 1.0)
        return Head(bias, scale, getattr(config, "final_logit_softcapping", None))

    def states(self, forward: Callable[..., Any], inputs: Mapping[str, Any], *, is_whole: bool) -> tuple[Tensor, Any]:
        """Return the states (sequences x positions x d) that the embedding is multiplied with, and the model's outputs.

        Args:
            forward: the model, which may be wrapped for several processes.
            is_whole: whether the logits of all positions are wanted; else those of the last, which takes no memory.
        """
        seen: list[Tensor] = []

        def record(_module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            seen.append(given[0])
            return None if is_whole else (given[0][:, -1:],)

        with self._hooked(record):
            outputs = forward(**inputs)
        self._check_seen(seen)
        return seen[0], outputs

    @torch.no_grad()
    def shifts_labels(self, inputs: Mapping[str, Any], labels: Tensor) -> bool:
        """Whether the model's own loss compares a label with the position before it; tried on two sequences of a batch.

        Raises UserError if its logits are not what `head` says, or its loss is not their likelihood.
        """
        rows = (labels != IGNORED).sum(1).argsort(descending=True)[:2]
        sample = {
            name: value[rows] if isinstance(value, Tensor) and len(value) == len(labels) else value
            for name, value in inputs.items()
        }
        labels, seen, was_training = labels[rows], [], self.model.training

        def enlarge(_module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            highest = linear(given[0].float(), self.weight.float()).abs().max()
            seen.append(given[0] * (LARGE / highest.clamp(min=1e-6)).to(given[0].dtype))
            return (seen[-1],)

        self.model.eval()
        try:
            with self._hooked(enlarge):
                outputs = self.model(**sample, labels=labels)
        finally:
            self.model.train(was_training)
        self._check_seen(seen)
        return self._check_likelihood(logits(self.head, seen[0], self.weight), labels, outputs)

    def _check_likelihood(self, expected: Tensor, labels: Tensor, outputs: Any) -> bool:
        given, loss = outputs.get("logits"), outputs.get("loss")
        if given is None or loss is None or given.shape != expected.shape:
            raise UserError(f"{self.name}: should give logits of all positions and a loss of the labels")
        difference = float((given.float() - expected).abs().max())
        if not difference < TOLERANCE:
            raise UserError(
                f"{self.name}: its logits are not those of its output embedding, {self.head._replace(bias=None)}: where the "
                f"highest is {LARGE:g} they differ by {difference:.3g}; only a bias, a scale and a soft-cap are supported"
            )
        means = {
            True: float(cross_entropy(expected[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)),
            False: float(cross_entropy(expected.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)),
        }
        nearest = min(means, key=lambda shifts: abs(means[shifts] - float(loss)))
        if not abs(means[nearest] - float(loss)) < TOLERANCE:
            raise UserError(
                f"{self.name}: its own loss is {float(loss):.4g} where the likelihood of the labels is {means[True]:.4g} "
                f"(of the next position) or {means[False]:.4g} (of their own): it has terms that an objective would drop"
            )
        return nearest

    def _check_seen(self, seen: list[Tensor]) -> None:
        if len(seen) != 1 or seen[0].dim() != 3:
            shapes = [tuple(states.shape) for states in seen]
            raise UserError(
                f"{self.name}: its output embedding met states {shapes}; should be once, sequences x positions x d"
            )

    @contextmanager
    def _hooked(self, hook: Callable[..., Any]) -> Iterator[None]:
        handle = self.module.register_forward_pre_hook(hook)
        try:
            yield
        finally:
            handle.remove()


def logits(head: Head, hidden: Tensor, weight: Tensor) -> Tensor:
    """... x N, float32."""
    product = linear(hidden.to(weight.dtype), weight).float()
    if head.bias is not None:
        product = product + head.bias.float()
    product = product * head.scale
    return product if head.softcap is None else head.softcap * torch.tanh(product / head.softcap)


@torch.no_grad()
def target_nll(head: Head, hidden: Tensor, weight: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """-log p of each target, natural logarithm, in its shape; 0 if it is `ignored`."""
    parts = zip(hidden.flatten(0, 1).split(MAX_POSITIONS), targets.flatten().split(MAX_POSITIONS), strict=True)
    nll = [
        cross_entropy(logits(head, states, weight), wanted, ignore_index=ignored, reduction="none")
        for states, wanted in parts
    ]
    return torch.cat(nll).view(targets.shape)


def group_of_types(facts: Facts) -> Tensor:
    """Frequency group of each type (N, int64): 0, 1 and 2 for frequent, medium and rare; the rare types are the facts'."""
    code = torch.full_like(facts.counts, 2)
    rest = (~facts.rare).nonzero().squeeze(1)
    rest = rest[facts.counts[rest].argsort(descending=True, stable=True)]
    code[rest] = (torch.arange(len(rest), device=rest.device) >= round(FREQUENT * len(rest))).to(code.dtype)
    return code


def sum_by_group(nll: Tensor, targets: Tensor, ignored: int, code: Tensor) -> Tensor:
    """Sum of -log p and number of targets (sequences x groups x 2, float64); nll and targets: sequences x positions."""
    kept = targets != ignored
    group = code[targets.masked_fill(~kept, 0)]
    chosen = torch.stack([kept & (group == number) for number in range(len(GROUP_NAMES))], dim=1)
    return torch.stack(((chosen * nll.double()[:, None]).sum(2), chosen.sum(2).double()), dim=2)


def group_metrics(total: Tensor) -> dict[str, float]:
    """Mean -log p of a target (loss) and its exponential by group (ppl_<group>), if there are targets; total: groups x 2."""
    both = dict(zip(GROUP_NAMES, total, strict=True)) | {"total": total.sum(0)}
    means = {name: nll / count for name, (nll, count) in both.items() if count}
    found = {f"ppl_{name}": float(mean.exp()) for name, mean in means.items()}
    return {"loss": float(means["total"]), **found} if means else {}
