import torch

from references.dense import flat, smoothed


def loss(facts, options, history, hidden, weight, targets):
    hidden, targets = flat(facts, hidden, targets)
    noise, own_noise = {}, []
    for h, y in zip(hidden.detach(), targets.tolist(), strict=True):
        w = weight[y].detach()
        noise[y] = -options["a"] * w.norm() * h / h.norm() if h @ w > 0 else torch.zeros_like(h)
        own_noise.append(noise[y])
    rows = []
    for h, y, own in zip(hidden, targets.tolist(), own_noise, strict=True):
        extra = (noise[y] if options["shared_direction"] else own) @ h
        rows.append(weight @ h + (torch.arange(len(weight)) == y) * extra)
    return smoothed(torch.stack(rows), targets, facts.label_smoothing).mean()
