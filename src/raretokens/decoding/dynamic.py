"""Dynamic evaluation (Krause et al., 2018): the weights follow the text that is read, and are drawn back to the trained ones.

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

from raretokens.decoding.carried import scored_at_once, segments
from raretokens.decoding.evaluation_job import Dynamic
from raretokens.subword.vocabulary import EOS


class Chosen(NamedTuple):
    rate: float
    decay: float
    epsilon: float


def statistics(model: nn.Module, text: np.ndarray, declared: Dynamic) -> list[Tensor]:
    """RMS of each parameter's gradient over batches of the training text, read in order."""
    sums, number, carried = [torch.zeros_like(weight) for weight in model.parameters()], 0, None
    for inputs, targets in islice(_batches(text, declared, model.table.device), declared.batches):
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


def choose(model: nn.Module, text: np.ndarray, rms: list[Tensor], declared: Dynamic) -> Chosen:
    """The settings of the least NLL on a text; no pass where there is but one."""
    known = [Chosen(*values) for values in product(declared.rate, declared.decay, declared.epsilon)]
    if len(known) == 1:
        return known[0]
    return min(known, key=lambda chosen: -followed(model, text, rms, chosen, declared.length).mean(dtype=np.float64))


def followed(model: nn.Module, text: np.ndarray, rms: list[Tensor], chosen: Chosen, length: int) -> np.ndarray:
    """Log-probability of each token, float32; afterwards the model has its trained weights again."""
    trained = [weight.detach().clone() for weight in model.parameters()]
    mean = sum(part.sum() for part in rms) / sum(part.numel() for part in rms)
    backs = [chosen.decay * (part / mean).clamp(max=1 / chosen.decay) for part in rms]
    paces = [chosen.rate / (part + chosen.epsilon) for part in rms]
    logprob, carried = [], None
    try:
        for inputs, targets in segments(text, length, model.table.device):
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
