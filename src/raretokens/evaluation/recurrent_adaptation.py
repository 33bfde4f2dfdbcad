"""A text read in order by a recurrent language model, its state carried from the first token to the last.

Continuous cache pointer (Grave et al., 2017): words that lately followed a like state are likelier.

p = weight * p_cache + (1 - weight) * p_model, with p_cache(w) proportional to the sum over the last `window` positions i whose
next word is w of exp(theta * h_t . h_i), h the states of the last layer. It acts from the position on that has a whole window
before it.
Dynamic evaluation (Krause et al., 2018): the weights follow the text that is read, and are drawn back to the trained ones.

After each segment, with g its gradient of the mean NLL and theta_0 the trained weights,

    theta <- theta - rate * g / (RMS + epsilon) + decay * min(RMS / mean RMS, 1 / decay) * (theta_0 - theta)

where RMS is the root of the mean squared gradient over the training text. A segment is scored before the weights follow it.
"""

from collections.abc import Iterator
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from raretokens.evaluation.config import Dynamic, Pointer
from raretokens.tokenization.vocabulary import EOS, PAD

POSITIONS = 256  # of the text at a time; changes the speed alone
SCORES = 1 << 19  # positions x vocabulary that are scored at a time; a mixture needs as much for each of its experts


class Read(NamedTuple):
    """Of each token of a text."""

    logprob: np.ndarray  # natural logarithm, float32
    prediction: np.ndarray  # most probable id, int32
    states: Tensor  # tokens x width of the last layer, on the CPU


@torch.no_grad()
def read(model: nn.Module, text: np.ndarray) -> Read:
    """model: in evaluation mode, of awd_lstm.py's kind."""
    # All that is kept has its place beforehand: small pieces kept between the large scores would split the memory they leave.
    states = torch.empty(len(text), model.layers[-1].hidden_size, dtype=torch.float32)
    found, carried, place = Read(np.empty(len(text), np.float32), np.empty(len(text), np.int32), states), None, 0
    for inputs, targets in segments(text, POSITIONS, model.embedding.device):
        output = model(inputs, carried)
        carried, here = output.carried, slice(place, place + targets.shape[1])
        found.states[here] = output.states[0]
        _score(model, output.hidden[0], targets[0], found.logprob[here], found.prediction[here])
        place = here.stop
    return found


def _score(model: nn.Module, hidden: Tensor, targets: Tensor, logprob: np.ndarray, prediction: np.ndarray) -> None:
    """Fill in the log-probability of each target and the most probable id, few positions at a time."""
    step = scored_at_once(model)
    for start in range(0, len(targets), step):
        few = slice(start, start + step)
        scores = model.log_probabilities(hidden[few]).float()
        logprob[few] = scores.gather(1, targets[few, None]).squeeze(1).cpu()
        scores[:, PAD] = -torch.inf
        prediction[few] = scores.argmax(1).cpu()


def scored_at_once(model: nn.Module) -> int:
    """How many positions."""
    return max(SCORES // len(model.embedding), 1)


def segments(text: np.ndarray, positions: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of one sequence (1 x positions); the first input is </s>."""
    ids = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64)).to(device)[None]
    for start in range(0, len(text), positions):
        end = min(start + positions, len(text))
        yield ids[:, start:end], ids[:, start + 1 : end + 1]


ROWS = 512  # positions at a time; changes the speed alone


class PointerChoice(NamedTuple):
    window: int
    theta: float
    weight: float


def choose_pointer(read: Read, text: np.ndarray, declared: Pointer) -> PointerChoice:
    """The settings of the least NLL on a text."""
    best, least = None, np.inf
    for window, theta in product(declared.window, declared.theta):
        of_cache = cache(read.states, text, window, theta)
        for weight in declared.weight:
            nll = -mixed(read.logprob, of_cache, window, weight).mean(dtype=np.float64)
            if best is None or nll < least:
                best, least = PointerChoice(window, theta, weight), nll
    assert best
    return best


def pointed(read: Read, text: np.ndarray, chosen: PointerChoice) -> np.ndarray:
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


class DynamicChoice(NamedTuple):
    rate: float
    decay: float
    epsilon: float


def statistics(model: nn.Module, text: np.ndarray, declared: Dynamic) -> list[Tensor]:
    """RMS of each parameter's gradient over batches of the training text, read in order."""
    sums, number, carried = [torch.zeros_like(weight) for weight in model.parameters()], 0, None
    for inputs, targets in islice(_batches(text, declared, model.embedding.device), declared.batches):
        gradient, _, carried = _gradient(model, inputs, targets, carried)
        for total, part in zip(sums, gradient, strict=True):
            total.addcmul_(part, part)
        number += 1
    return [(total / number).sqrt() for total in sums]


def _batches(text: np.ndarray, declared: Dynamic, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets, sequences x positions."""
    rows = len(text) // declared.sequences
    ids = np.concatenate(([EOS], text[: rows * declared.sequences])).astype(np.int64)
    inputs, targets = (torch.from_numpy(part.reshape(declared.sequences, rows)) for part in (ids[:-1], ids[1:]))
    for start in range(0, rows, declared.length):
        chosen = slice(start, start + declared.length)
        yield inputs[:, chosen].to(device), targets[:, chosen].to(device)


def choose_dynamic(model: nn.Module, text: np.ndarray, rms: list[Tensor], declared: Dynamic) -> DynamicChoice:
    """The settings of the least NLL on a text; no pass where there is but one."""
    known = [DynamicChoice(*values) for values in product(declared.rate, declared.decay, declared.epsilon)]
    if len(known) == 1:
        return known[0]
    return min(known, key=lambda chosen: -followed(model, text, rms, chosen, declared.length).mean(dtype=np.float64))


def followed(model: nn.Module, text: np.ndarray, rms: list[Tensor], chosen: DynamicChoice, length: int) -> np.ndarray:
    """Log-probability of each token, float32; afterwards the model has its trained weights again."""
    trained = [weight.detach().clone() for weight in model.parameters()]
    mean = sum(part.sum() for part in rms) / sum(part.numel() for part in rms)
    backs = [chosen.decay * (part / mean).clamp(max=1 / chosen.decay) for part in rms]
    paces = [chosen.rate / (part + chosen.epsilon) for part in rms]
    logprob, carried = [], None
    try:
        for inputs, targets in segments(text, length, model.embedding.device):
            gradient, scored, carried = _gradient(model, inputs, targets, carried)
            logprob.append(scored.float().cpu())
            with torch.no_grad():
                for weight, start, part, back, pace in zip(
                    model.parameters(), trained, gradient, backs, paces, strict=True
                ):
                    weight.add_(back * (start - weight) - pace * part)
    finally:
        with torch.no_grad():
            for weight, start in zip(model.parameters(), trained, strict=True):
                weight.copy_(start)
    return torch.cat(logprob).numpy()


def _gradient(
    model: nn.Module, inputs: Tensor, targets: Tensor, carried: Tensor | None
) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
    """Gradient of the mean NLL, log-probability of each target (flat), and the states after."""
    with torch.enable_grad():
        output = model(inputs, carried)
        step = scored_at_once(model)
        some = zip(output.hidden.flatten(0, 1).split(step), targets.flatten().split(step), strict=True)
        # What has been scored is computed again in the backward pass, so that few positions' scores exist at a time.
        scored = torch.cat([checkpoint(_scored, model, *few, use_reentrant=False) for few in some])
        gradient = torch.autograd.grad(-scored.mean(), list(model.parameters()))
    return gradient, scored.detach(), output.carried


def _scored(model: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log-probability of each target; hidden: positions x width."""
    return model.log_probabilities(hidden).gather(1, targets[:, None]).squeeze(1)
