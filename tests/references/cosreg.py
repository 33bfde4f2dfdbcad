import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets):
    rows = [k for k in range(facts.types) if k != facts.pad]
    total = torch.zeros(())
    for i in rows:
        for j in rows:
            if i != j:
                total = total + weight[i] @ weight[j] / (weight[i].norm() * weight[j].norm())
    return likelihood(facts, hidden, weight, targets) + options["gamma"] * total / len(rows) ** 2
