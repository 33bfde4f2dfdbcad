import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets):
    values = torch.linalg.svd(weight[facts.used]).S
    extra = sum((s / values[0] - (k + 1) ** -options["decay"]) ** 2 for k, s in enumerate(values)) / len(values)
    return likelihood(facts, hidden, weight, targets) + options["strength"] * extra
