"""Pieces that several references share: smoothed losses and the papers' detached constructions, all dense."""

import torch
from torch import Tensor


def flat(facts, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    keep = targets != facts.pad
    return hidden[keep], targets[keep]


def smoothed(logits: Tensor, targets: Tensor, eps: float) -> Tensor:
    """(1 - eps) * (-log p_y) + eps / N * sum of -log p_k, a position."""
    logp = logits.log_softmax(1)
    return -(1 - eps) * logp[torch.arange(len(targets)), targets] - eps / logits.shape[1] * logp.sum(1)


def likelihood(facts, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    hidden, targets = flat(facts, hidden, targets)
    return smoothed(hidden @ weight.T, targets, facts.label_smoothing).mean()


def three_logits(
    facts, hidden: Tensor, weight: Tensor, targets: Tensor, rare: Tensor, g1: Tensor, g2: Tensor
) -> Tensor:
    """AGG Eq. 9 and 10, literally: one term for the states, two gated ones for the table. Its value is twice the loss."""
    hidden, targets = flat(facts, hidden, targets)
    loss = smoothed(hidden @ weight.detach().T, targets, facts.label_smoothing).sum()
    for gate, chosen in ((g1, ~rare[targets]), (g2, rare[targets])):
        entries = gate.repeat(len(targets), 1)
        entries[torch.arange(len(targets)), targets] = 1.0
        through = hidden.detach() @ weight.T
        gated = entries * through + (1 - entries) * through.detach()
        loss = loss + smoothed(gated, targets, facts.label_smoothing)[chosen].sum()
    return loss / len(targets)


def adaptive_gates(facts, options: dict, history: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """AGG section 4: rare set, g1 and g2 from a brute-force window over the last K updates."""
    period = facts.steps_per_epoch
    past = history if options.get("include_current", True) else history[:-1]

    def appearances(of_updates: list[Tensor]) -> tuple[Tensor, Tensor]:
        window = of_updates[-period:]
        seen = sum(window, torch.zeros_like(facts.counts)).to(torch.get_default_dtype())
        return seen, seen / (period if options.get("full_divisor") else max(len(window), 1))

    static = past[:period] if options.get("static") else past
    seen, mean = appearances(static)
    rare = mean < options["alpha"] * options["alpha_scale"]
    rare[: facts.specials] = False
    if not options.get("static_counts", True):
        seen, mean = appearances(past)
    g1, g2 = torch.ones(2, len(seen))
    for k in rare.nonzero().squeeze(1):
        g1[k] = min(mean[k], 1.0) if options.get("g1", True) else 1.0
        g2[k] = min(seen[k] / (seen[rare].mean() + 1e-7), 1.0) if options.get("g2", True) else 1.0
    return rare, g1, g2
