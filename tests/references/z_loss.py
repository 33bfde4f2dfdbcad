import torch

from references.dense import flat, likelihood


def loss(facts, options, history, hidden, weight, targets):
    states, _ = flat(facts, hidden, targets)
    normaliser = torch.log(torch.exp(states @ weight.T).sum(1))
    return likelihood(facts, hidden, weight, targets) + options["strength"] * (normaliser**2).mean()
