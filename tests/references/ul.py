import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets):
    positions, total = (targets != facts.pad).sum(), torch.zeros(())
    plain = likelihood(facts, hidden, weight, targets)
    if options["flatten_batch"]:
        hidden, targets = hidden.reshape(1, -1, hidden.shape[-1]), targets.reshape(1, -1)
    for states, row in zip(hidden, targets.tolist(), strict=True):
        for t, y in enumerate(row):
            if y != facts.pad:
                p = (states[t] @ weight.T).softmax(0)
                for c in {*row[:t]} - {y, facts.pad}:
                    total = total - torch.log((1 - p[c]).clamp(min=1e-5))
    return plain + options["alpha_ul"] * total / positions
