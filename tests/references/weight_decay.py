from references.dense import likelihood


def loss(facts, options, history, hidden, weight, targets):
    extra = options["rate"] * (weight**2).sum() / len(weight) if options["form"] == "l2" else 0.0
    return likelihood(facts, hidden, weight, targets) + extra
