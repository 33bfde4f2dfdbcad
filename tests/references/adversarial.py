import torch

from references.dense import flat, smoothed


def loss(facts, options, history, hidden, weight, targets):
    hidden, targets = flat(facts, hidden, targets)
    rows = []
    for h, y in zip(hidden, targets, strict=True):
        w, own = weight[y].detach(), torch.arange(len(weight)) == y
        size = options["a"] * w.norm() if h.detach() @ w > 0 else 0.0
        rows.append(weight @ h - own * size * (h @ (h.detach() / h.detach().norm())))
    return smoothed(torch.stack(rows), targets, facts.label_smoothing).mean()
