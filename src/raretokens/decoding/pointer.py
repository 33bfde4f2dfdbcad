"""Continuous cache pointer (Grave et al., 2017): words that lately followed a like state are likelier.

p = weight * p_cache + (1 - weight) * p_model, with p_cache(w) proportional to the sum over the last `window` positions i whose
next word is w of exp(theta * h_t . h_i), h the states of the last layer. It acts from the position on that has a whole window
before it.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from raretokens.decoding.carried import Read
from raretokens.decoding.evaluation_job import Pointer

ROWS = 512  # positions at a time; changes the speed alone


class Chosen(NamedTuple):
    window: int
    theta: float
    weight: float


def choose(read: Read, text: np.ndarray, declared: Pointer) -> Chosen:
    """The settings of the least NLL on a text."""
    best, least = None, np.inf
    for window, theta in product(declared.window, declared.theta):
        of_cache = cache(read.states, text, window, theta)
        for weight in declared.weight:
            nll = -mixed(read.logprob, of_cache, window, weight).mean(dtype=np.float64)
            if best is None or nll < least:
                best, least = Chosen(window, theta, weight), nll
    assert best
    return best


def pointed(read: Read, text: np.ndarray, chosen: Chosen) -> np.ndarray:
    """Log-probability of each token with the cache, float32."""
    return mixed(read.logprob, cache(read.states, text, chosen.window, chosen.theta), chosen.window, chosen.weight)


def mixed(logprob: np.ndarray, of_cache: np.ndarray, window: int, weight: float) -> np.ndarray:
    """logprob: of the model; of_cache: the cache's probabilities, from the position on that has a window before it."""
    together = logprob.astype(np.float64)
    together[window:] = np.logaddexp(together[window:] + np.log1p(-weight), np.log(weight) + _log(of_cache))
    return together.astype(np.float32)


def _log(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def cache(states: Tensor, text: np.ndarray, window: int, theta: float) -> np.ndarray:
    """The cache's probability of each token from position `window` on; states: tokens x d."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    states, words = states.to(device), torch.from_numpy(np.asarray(text, dtype=np.int64)).to(device)
    starts = range(window, len(words), ROWS)
    return np.concatenate([_some(states, words, start, window, theta) for start in starts] or [np.zeros(0)])


def _some(states: Tensor, words: Tensor, start: int, window: int, theta: float) -> np.ndarray:
    """Of at most ROWS positions from `start`."""
    end = min(start + ROWS, len(words))
    first = start - window
    scores = theta * states[start:end] @ states[first : end - 1].T  # positions x the windows of all of them
    age = torch.arange(start, end, device=words.device)[:, None] - torch.arange(first, end - 1, device=words.device)
    scores.masked_fill_((age < 1) | (age > window), -torch.inf)
    same = words[start:end, None] == words[None, first : end - 1]
    return (scores.softmax(1) * same).sum(1).double().cpu().numpy()
