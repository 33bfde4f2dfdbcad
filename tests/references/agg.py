from references.dense import adaptive_gates, three_logits


def loss(facts, options, history, hidden, weight, targets):
    return three_logits(facts, hidden, weight, targets, *adaptive_gates(facts, options, history))
