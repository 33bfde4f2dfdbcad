"""The discriminator is at its start here; its own steps are tested apart."""

import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets, objective):
    logits = objective.discriminator(weight).squeeze(1)
    popular = [k for k in range(facts.types) if k != facts.pad and k < round(options["popular"] * facts.types)]
    rare = [k for k in range(facts.types) if k != facts.pad and k not in popular]
    of_popular = -torch.log(torch.sigmoid(logits[popular])).mean()
    of_rare = -torch.log(1 - torch.sigmoid(logits[rare])).mean()
    return likelihood(facts, hidden, weight, targets) - options["strength"] * (of_popular + of_rare) / 2
