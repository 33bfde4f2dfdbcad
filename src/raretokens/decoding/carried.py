"""A text read in order by a recurrent language model, its state carried from the first token to the last."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.subword.vocabulary import EOS, PAD

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
    for inputs, targets in segments(text, POSITIONS, model.table.device):
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
    return max(SCORES // len(model.table), 1)


def segments(text: np.ndarray, positions: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of one sequence (1 x positions); the first input is </s>."""
    ids = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64)).to(device)[None]
    for start in range(0, len(text), positions):
        end = min(start + positions, len(text))
        yield ids[:, start:end], ids[:, start + 1 : end + 1]
