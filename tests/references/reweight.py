from references.dense import flat, smoothed


def loss(facts, options, history, hidden, weight, targets):
    hidden, targets = flat(facts, hidden, targets)
    counts = facts.counts.double()
    omega = counts.sum() / (counts > 0).sum() / counts
    return (smoothed(hidden @ weight.T, targets, facts.label_smoothing) * omega[targets]).mean()
