"""AGPS Algorithm 1, literally but for its slips: the masks of the batch, two losses, detached features in the second."""

import torch

from references.dense import flat, smoothed


def loss(facts, options, history, hidden, weight, targets):
    hidden, targets = flat(facts, hidden, targets)
    counts = facts.counts.to(weight.dtype)
    rare = facts.ranks >= options["first_rare"] if options["first_rare"] else facts.rare
    in_batch = history[-1] > 0
    f1, f2 = (counts / options["mu1"]).clamp(max=1.0), (counts / options["mu2"]).clamp(max=1.0)
    full = in_batch | ~rare  # words of the batch and words that are not rare keep their whole gradient
    mask, mask_reversed = torch.where(full, 1.0, f1), torch.where(full, 0.0, f2)
    from_rare, through = rare[targets], hidden.detach() @ weight.T

    def masked(entries):
        return smoothed(entries * through + (1 - entries) * through.detach(), targets, facts.label_smoothing)

    if options["variant"] == "eq15":
        table = masked(torch.where(from_rare[:, None], torch.where(full, 1.0, f2), mask)).sum()
    else:
        table = masked(mask).sum() + masked(mask_reversed)[from_rare].sum()
    states = smoothed(hidden @ weight.detach().T, targets, facts.label_smoothing).sum()
    return (states + table) / len(targets)
