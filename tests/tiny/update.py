"""One update of random states and targets, and the loss that the training loop would minimise in it."""

import torch

from raretokens import objectives
from raretokens.loss.objective import Facts
from raretokens.objectives.registry import declared_options

N, D, S, T, PAD, SPECIALS = 26, 6, 3, 9, 1, 4


def facts(**changes) -> Facts:
    counts = torch.arange(N, 0, -1) * 3
    settings = {"counts": counts, "rare": torch.arange(N) >= 19, "types": N - 2, "specials": SPECIALS, "pad": PAD,
                "updates_per_epoch": 4, "width": D, "label_smoothing": 0.1}  # fmt: skip
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


def build(name: str, options: dict, **changes) -> objectives.Objective:
    torch.manual_seed(0)
    options = {"alpha": 0.6, **options} if "alpha" in declared_options(name) else options
    return objectives.build(name, facts(**changes), **options)


def whole(objective, hidden, weight, targets, counts) -> torch.Tensor:
    """The loss that the training loop minimises in an update, in one micro-batch."""
    objective.begin_update(counts)
    total = objective.loss(hidden, weight, targets).loss / counts.sum()
    penalty = objective.penalty(weight)
    return total if penalty is None else total + penalty


def gradients(loss, *inputs):
    return [g if g is not None else torch.zeros_like(x) for g, x in
            zip(torch.autograd.grad(loss, inputs, allow_unused=True), inputs, strict=True)]  # fmt: skip
