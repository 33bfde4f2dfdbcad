"""The output embedding of a transformers model: the states before it, its logits, and perplexity by frequency group."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from raretokens.errors import UserError
from raretokens.loss.facts import Facts
from raretokens.loss.terms import Head

IGNORED = -100  # label of positions without a target, as everywhere in transformers
MAX_POSITIONS = 1024  # positions whose logits are in memory at once
GROUP_NAMES = ("freq", "med", "rare")
FREQUENT = 3 / 8  # share of the types that are not rare; groups of 30, 50 and 20 % if 20 % are rare


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

    def states(self, forward: Callable[..., Any], inputs: Mapping[str, Any], *, is_whole: bool) -> tuple[Tensor, Any]:
        """Return the states (sequences x positions x d) that are multiplied with the embedding, and the model's outputs.

        `forward` is the model, possibly wrapped for several processes. Its inputs have no labels. Unless `is_whole`, only the
        logits of the last position are computed, to save memory.
        """
        seen: list[Tensor] = []

        def record(_module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            seen.append(given[0])
            return None if is_whole else (given[0][:, -1:],)

        with self.module.register_forward_pre_hook(record):
            outputs = forward(**inputs)
        return self.only(seen), outputs

    def only(self, seen: list[Tensor]) -> Tensor:
        """Return the states that the output embedding received. Raise UserError unless there is exactly one 3-d tensor."""
        if len(seen) != 1 or seen[0].dim() != 3:
            shapes = [tuple(states.shape) for states in seen]
            raise UserError(
                f"{self.name}: its output embedding met states {shapes}; should be once, sequences x positions x d"
            )
        return seen[0]


def logits(head: Head, hidden: Tensor, weight: Tensor) -> Tensor:
    """Return the logits (... x N, float32)."""
    product = linear(hidden.to(weight.dtype), weight).float()
    if head.bias is not None:
        product = product + head.bias.float()
    product = product * head.scale
    return product if head.softcap is None else head.softcap * torch.tanh(product / head.softcap)


@torch.no_grad()
def target_nll(head: Head, hidden: Tensor, weight: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """Return -log p (natural logarithm) of each target, in the shape of `targets`; 0 where the target is `ignored`."""
    parts = zip(hidden.flatten(0, 1).split(MAX_POSITIONS), targets.flatten().split(MAX_POSITIONS), strict=True)
    how = {"ignore_index": ignored, "reduction": "none"}
    nll = [cross_entropy(logits(head, states, weight), wanted, **how) for states, wanted in parts]
    return torch.cat(nll).view(targets.shape)


def group_of_types(facts: Facts) -> Tensor:
    """Return the frequency group of each type (N, int64): 0 frequent, 1 medium, 2 rare. Rare types come from the facts.

    Fillers and padding are never targets, so they are not counted as types.
    """
    code = torch.full_like(facts.counts, 2)
    rest = (facts.used & ~facts.rare).nonzero().squeeze(1)
    rest = rest[facts.counts[rest].argsort(descending=True, stable=True)]
    code[rest] = (torch.arange(len(rest), device=rest.device) >= round(FREQUENT * len(rest))).to(code.dtype)
    return code


def sum_by_group(nll: Tensor, targets: Tensor, ignored: int, code: Tensor) -> Tensor:
    """Return sum of -log p and number of targets by group (sequences x groups x 2, float64).

    `nll` and `targets` are sequences x positions. Targets equal to `ignored` are left out. `code` is the group of each type (N).
    """
    kept = targets != ignored
    group = code[targets.masked_fill(~kept, 0)]
    chosen = torch.stack([kept & (group == number) for number in range(len(GROUP_NAMES))], dim=1)
    return torch.stack(((chosen * nll.double()[:, None]).sum(2), chosen.sum(2).double()), dim=2)


def group_metrics(total: Tensor) -> dict[str, float]:
    """Return the mean -log p of a target (loss) and its exponential by group (ppl_<group>). Empty without targets.

    `total` has the sum of -log p and the number of targets of each group (groups x 2).
    """
    both = dict(zip(GROUP_NAMES, total, strict=True)) | {"total": total.sum(0)}
    means = {name: nll / count for name, (nll, count) in both.items() if count}
    found = {f"ppl_{name}": float(mean.exp()) for name, mean in means.items()}
    return {"loss": float(means["total"]), **found} if means else {}
