import math

import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets):
    bound, total = 1 - options["margin"], torch.zeros(())
    for states, row in zip(hidden, targets, strict=True):
        states = states[row != facts.pad]
        n = len(states)
        chosen = sorted({math.ceil(k * n / options["positions"]) for k in range(options["positions"])} & {*range(n)})
        terms = []
        for i in chosen:
            for j in chosen:
                if i != j:
                    cosine = states[i] @ states[j] / (states[i].norm() * states[j].norm())
                    if abs(cosine) > bound:  # the value of the bound, and the slope of the angle there
                        end = math.copysign(bound, float(cosine.detach()))
                        angle = math.acos(end) - (cosine - cosine.detach()) / math.sqrt(1 - bound**2)
                    else:
                        angle = torch.acos(cosine)
                    terms.append(torch.exp(-angle / math.pi / options["temperature"]))
        total = total + n * torch.log(sum(terms) / len(terms))
    return likelihood(facts, hidden, weight, targets) + options["strength"] * total / (targets != facts.pad).sum()
