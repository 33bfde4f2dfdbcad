"""The gate on d(NLL + UL)/dz: the table sees gated logits, the states plain ones."""

import torch

from references.dense import adaptive_gates, smoothed


def loss(facts, options, history, hidden, weight, targets):
    rare, g1, g2 = adaptive_gates(facts, options, history)
    total, positions = torch.zeros(()), 0
    if options["flatten_batch"]:
        hidden, targets = hidden.reshape(1, -1, hidden.shape[-1]), targets.reshape(1, -1)
    for states, row in zip(hidden, targets.tolist(), strict=True):
        for t, y in enumerate(row):
            if y == facts.pad:
                continue
            gate = (g2 if rare[y] else g1).clone()
            gate[y] = 1.0
            through = weight @ states[t].detach()
            for z in (weight.detach() @ states[t], gate * through + (1 - gate) * through.detach()):
                p = z.softmax(0)
                total = total + smoothed(z[None], torch.tensor([y]), facts.label_smoothing).sum()
                for c in {*row[:t]} - {y, facts.pad}:
                    total = total - options["alpha_ul"] * torch.log((1 - p[c]).clamp(min=1e-5))
            positions += 1
    return total / positions
