"""A text read in order by a recurrent language model, its state carried from the first token to the last."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.subword.vocabulary import EOS, PAD

POSITIONS = 256  # at a time; changes the speed alone


class Read(NamedTuple):
    """Of each token of a text."""

    logprob: np.ndarray  # natural logarithm, float32
    prediction: np.ndarray  # most probable id, int32
    states: Tensor  # tokens x width of the last layer, on the CPU


@torch.no_grad()
def read(model: nn.Module, text: np.ndarray) -> Read:
    """model: in evaluation mode, of awd_lstm.py's kind."""
    parts, carried = [], None
    for inputs, targets in segments(text, POSITIONS, model.table.device):
        output = model(inputs, carried)
        carried = output.carried
        scores = model.log_probabilities(output.hidden[0]).float()
        logprob = scores.gather(1, targets.T).squeeze(1)
        scores[:, PAD] = -torch.inf
        parts.append((logprob.cpu(), scores.argmax(1).int().cpu(), output.states[0].float().cpu()))
    logprob, prediction, states = (torch.cat(part) for part in zip(*parts, strict=True))
    return Read(logprob.numpy(), prediction.numpy(), states)


def segments(text: np.ndarray, positions: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of one sequence (1 x positions); the first input is </s>."""
    ids = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64)).to(device)[None]
    for start in range(0, len(text), positions):
        end = min(start + positions, len(text))
        yield ids[:, start:end], ids[:, start + 1 : end + 1]
