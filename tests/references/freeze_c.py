import torch

from references.dense import three_logits


def loss(facts, options, history, hidden, weight, targets):
    g1, g2 = torch.where(facts.rare, 1.0, 1.0), torch.where(facts.rare, 0.0, 1.0)
    return three_logits(facts, hidden, weight, targets, facts.rare, g1, g2)
