"""One update of random states and targets, and the loss that the training loop would minimise in it."""

import torch

from raretokens.loss.facts import Facts
from raretokens.loss.objective import Objective
from raretokens.objectives import registry
from raretokens.objectives.registry import declared

N, D, S, T, PAD, SPECIALS = 26, 6, 3, 9, 1, 4


def facts(**changes) -> Facts:
    counts = torch.arange(N, 0, -1) * 3
    settings = {"counts": counts, "rare": torch.arange(N) >= 19, "types": N - 2, "specials": SPECIALS, "pad": PAD,
                "steps_per_epoch": 4, "width": D, "label_smoothing": 0.1}  # fmt: skip
    return Facts(**{**settings, **changes})


def update(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """hidden, weight, targets and their counts, of an update; targets fall in frequency and are padded at the end."""
    random = torch.Generator().manual_seed(seed)
    hidden, weight = torch.randn(S, T, D, generator=random), torch.randn(N, D, generator=random)
    targets = SPECIALS + (torch.rand(S, T, generator=random) ** 2 * (N - 2 - SPECIALS)).long()
    for row, length in enumerate((T, T - 2, T - 5)):
        targets[row, length:] = PAD
    counts = torch.bincount(targets[targets != PAD], minlength=N)
    return hidden.requires_grad_(), weight.requires_grad_(), targets, counts


def settings(name: str, options: dict) -> dict:
    """All options of the objective: alpha, where it has one, high enough that some types are rare."""
    defaults = declared(name).defaults
    return {**defaults, **({"alpha": 0.6} if "alpha" in defaults else {}), **options}


def build(name: str, options: dict, **changes) -> Objective:
    """changes: of the facts."""
    torch.manual_seed(0)
    return registry.build(name, facts(**changes), **settings(name, options))


def whole(objective: Objective, hidden, weight, targets, counts) -> torch.Tensor:
    """The loss that the training loop minimises in an update, in one micro-batch."""
    objective.begin_step(counts)
    total = objective.loss(hidden, weight, targets).loss / counts.sum()
    penalty = objective.penalty(weight)
    return total if penalty is None else total + penalty


def gradients(loss, *inputs):
    return [g if g is not None else torch.zeros_like(x) for g, x in
            zip(torch.autograd.grad(loss, inputs, allow_unused=True), inputs, strict=True)]  # fmt: skip
