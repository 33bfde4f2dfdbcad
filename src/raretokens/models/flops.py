"""Work of a model in floating-point operations: what model-FLOP utilisation and plans of running time are computed from."""

from raretokens.config import Shape


def flops_per_token(task: str, size: Shape, vocabulary: int, block: int) -> float:
    """Operations of one forward and backward pass for one target token.

    Chowdhery et al. (2022, PaLM, appendix B): 6 for each weight of a matrix product (2 forward, 4 backward; the tied table counts
    once, as the softmax) and 12 * width * block a layer for attention scores and their use, causal or not. Nothing is added
    for what is computed twice, norms, activations, the optimizer or the objective, so that utilisation compares across methods.

    task: lm or nmt. block: positions of a sequence; of translation the mean sentence is closer than the longest. In translation
    each target token comes with one source token, which passes the encoder and the keys and values of the cross-attention.
    """
    attention, feedforward = 4 * size.width**2, 2 * size.width * size.feedforward
    weights, attended = attention + feedforward, block
    if task == "nmt":
        weights, attended = 3 * attention + 2 * feedforward, 3 * block  # encoder, decoder and cross-attention
    return float(6 * (size.layers * weights + vocabulary * size.width) + 12 * size.layers * size.width * attended)
