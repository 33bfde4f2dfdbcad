"""Naive float64 losses, written from the papers' equations, one file for each loss of a file in objectives/.

Each has `loss(facts, options, history, hidden, weight, targets)`: the whole loss of one update, dense and slow; its gradients by
autograd are the truth. history: counts (N) of every update so far, this one last. hidden: S x T x d, targets: S x T with padding.
"""
