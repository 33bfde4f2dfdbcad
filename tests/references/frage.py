"""The discriminator is at its start here; its own steps are tested apart."""

import torch

from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets, objective):
    plain = likelihood(facts, hidden, weight, targets)
    if len(history) <= options["start"]:
        return plain
    first_rare = options["popular_types"] or round(options["popular"] * facts.types)
    special = [*range(facts.specials), *facts.markers]
    ranked = sorted(range(facts.types), key=lambda k: (k not in special, -int(facts.counts[k]), k))
    popular = [k for k in ranked[:first_rare] if k != facts.pad]
    rare = [k for k in ranked[first_rare:] if k != facts.pad]
    fixed = weight.detach() if options["rare_only"] else weight
    of_popular = -torch.log(torch.sigmoid(objective.discriminator(fixed[popular])))
    of_rare = -torch.log(1 - torch.sigmoid(objective.discriminator(weight[rare])))
    entropy = of_popular.sum() / len(popular) + of_rare.sum() / len(rare)  # Eq. 2
    if not options["balanced"]:
        entropy = (of_popular.sum() + of_rare.sum()) / (len(popular) + len(rare))
    return plain - options["strength"] * entropy
