from references.dense import adaptive_gates, smoothed, three_logits


def loss(facts, options, history, hidden, weight, targets):
    total = three_logits(facts, hidden, weight, targets, *adaptive_gates(facts, options, history))
    if options["unmasked_pad"]:  # the public code's first term, that of the states, runs over padding as well
        padded = targets == facts.pad
        states = smoothed(hidden[padded] @ weight.detach().T, targets[padded], facts.label_smoothing)
        total = total + states.sum() / (~padded).sum()
    return total
