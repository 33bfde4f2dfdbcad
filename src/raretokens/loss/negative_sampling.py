"""The loss of skip-gram with negative sampling (Mikolov et al., 2013, equation 4)."""

import torch
from torch import Tensor
from torch.nn.functional import softplus


def negative_sampling(products: Tensor, pairs: Tensor, negatives: int) -> Tensor:
    """Sum over pairs of -log s(x) - (negatives / K) * sum over the K drawn words of log s(-x_k), with s the logistic function.

    products: blocks x positions x (C + K), of each word with the C around its block and the K words drawn for the block; pairs:
    blocks x positions x C, bool. Its mean over draws is that of `negatives` words drawn anew for each pair: a drawn word that
    happens to be the pair's own counts, as in the equation.
    """
    around = pairs.shape[2]
    drawn = products.shape[2] - around
    repelled = softplus(products[..., around:]).sum(2) * pairs.sum(2) * (negatives / drawn)
    return torch.where(pairs, softplus(-products[..., :around]), 0.0).sum() + repelled.sum()
