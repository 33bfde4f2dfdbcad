"""Learning rate: linear warm-up, then the inverse square root of the update (Vaswani et al., 2017; fairseq's form)."""

INITIAL_LR = 1e-7


def learning_rate(update: int, peak: float, warmup: int) -> float:
    """Rate of update `update`, counted from 1."""
    if update <= warmup:
        return INITIAL_LR + (peak - INITIAL_LR) * update / warmup
    return peak * (warmup / update) ** 0.5
