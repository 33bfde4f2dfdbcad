import torch

from references.dense import adaptive_gates, smoothed, three_logits


def loss(facts, options, history, hidden, weight, targets):
    gates = adaptive_gates(facts, options, history)
    if options["alpha_ul"]:
        return with_unlikelihood(facts, options, hidden, weight, targets, *gates)
    total = three_logits(facts, hidden, weight, targets, *gates)
    if options["unmasked_pad"]:  # the public code's first term, that of the states, runs over padding as well
        padded = targets == facts.pad
        states = smoothed(hidden[padded] @ weight.detach().T, targets[padded], facts.label_smoothing)
        total = total + states.sum() / (~padded).sum()
    return total


def with_unlikelihood(facts, options, hidden, weight, targets, rare, g1, g2):
    """The gate on d(NLL + UL)/dz: the table sees gated logits, the states plain ones."""
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
