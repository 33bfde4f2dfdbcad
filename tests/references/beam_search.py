"""Searches for the best translation over the training graph, one sentence at a time, by definition and without a cache.

A translation is a row of ids that ends in </s>, or has `longest` of them; its score is its log-probability (float64) divided
by penalty(number of ids). <pad> has no probability, nor has </s> in the first place: no translation is empty.
"""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from raretokens.vocabulary import EOS, PAD

PENALTIES: dict[str, Callable[[int, float], float]] = {
    "fairseq": lambda length, alpha: length**alpha,
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
}


@torch.no_grad()
def log_probabilities(model: torch.nn.Module, source: list[int], prefixes: Tensor) -> Tensor:
    """Of every id after each prefix and each of its beginnings: prefixes x (1 + their length) x N."""
    inputs = torch.nn.functional.pad(prefixes, (1, 0), value=EOS)
    logits = model(torch.tensor([source]).expand(len(inputs), -1), inputs) @ model.embedding.T
    logits[..., PAD] = logits[:, 0, EOS] = -torch.inf
    return logits.double().log_softmax(-1)


def exhaustive(model: torch.nn.Module, source: list[int], longest: int, penalty: Callable[[int], float]) -> list[int]:
    """The best of all translations there are, without </s>."""
    usable = [i for i in range(len(model.embedding)) if i not in (PAD, EOS)]
    prefixes = torch.tensor(list(itertools.product(usable, repeat=longest - 1)))
    steps = log_probabilities(model, source, prefixes)
    so_far = torch.zeros(len(prefixes), dtype=torch.float64)
    best, chosen = -torch.inf, []
    for length in range(
        1, longest + 1
    ):  # those with their </s>; shorter prefixes are there many times, which is no harm
        last = so_far[:, None] + steps[:, length - 1]
        allowed = [EOS] if length < longest else [EOS, *usable]
        score, place = (last[:, allowed].flatten() / penalty(length)).max(0)
        if score > best:
            row, column = divmod(int(place), len(allowed))
            best, chosen = score, [*prefixes[row, : length - 1].tolist(), allowed[column]]
        if length < longest:
            so_far = so_far + steps[:, length - 1].gather(1, prefixes[:, length - 1 : length])[:, 0]
    return [i for i in chosen if i != EOS]


def beam_search(
    model: torch.nn.Module, source: list[int], longest: int, penalty: Callable[[int], float], beam: int, enough: int
) -> list[int]:
    """The best of the first `enough` translations that a beam search finishes (and those of the same step), without </s>."""
    prefixes, scores, finished = torch.empty(1, 0, dtype=torch.long), torch.zeros(1, dtype=torch.float64), []
    for length in range(1, longest + 1):
        totals = scores[:, None] + log_probabilities(model, source, prefixes)[:, -1]
        values, places = totals.flatten().topk(
            min(2 * beam, totals.numel())
        )  # so many that `beam` of them go on even if as many end
        rows, ids = places // totals.shape[1], places % totals.shape[1]
        extended = torch.cat((prefixes[rows], ids[:, None]), dim=1)
        ends = (ids == EOS) | (length == longest)
        best = torch.arange(len(ids)) < beam
        finished += [(float(values[i]) / penalty(length), extended[i].tolist()) for i in (ends & best).nonzero()[:, 0]]
        if len(finished) >= enough:
            break
        prefixes, scores = extended[ids != EOS][:beam], values[ids != EOS][:beam]
    return [i for i in max(finished)[1] if i != EOS]
