"""Reading a text with a language model, in windows and in blocks: log-probabilities and predictions of all tokens."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.tokenization.vocabulary import EOS, PAD

if TYPE_CHECKING:
    from raretokens.evaluation.config import Probe

TOKENS_AT_ONCE = 4096  # of a forward pass; changes the speed alone
Logits = Callable[[Tensor, int], Tensor]  # ids (sequences x positions), first position wanted -> sequences x wanted x N


class Reading(NamedTuple):
    """What a sequence of the text is read for."""

    length: int
    scored: int | None  # place in it from which on tokens are scored; None: none is
    predicted: bool  # whether its positions give predictions


class Ends(NamedTuple):
    """What stands before and after a text, and what is never predicted."""

    begin: int = EOS
    end: int = EOS
    never: int | None = PAD


class Read(NamedTuple):
    logprob: np.ndarray  # of each token, natural logarithm, float32
    prediction: np.ndarray  # the most probable id at each position, int32
    rare: (
        np.ndarray | None
    )  # logarithm of the probability that all rare types have together there, float32; where asked for


def teacher_forced(model: nn.Module, text: np.ndarray, probe: "Probe", rare: np.ndarray | None = None) -> Read:
    """read() by a model of models/: final hidden states times its table."""
    table = model.embedding

    def logits(inputs: Tensor, first: int) -> Tensor:
        hidden = model(inputs.to(table.device))[:, first:]
        return (hidden @ table.T).float()

    return read(logits, text, probe, rare=rare)


@torch.no_grad()
def read(
    logits: Logits,
    text: np.ndarray,
    probe: "Probe",
    ends: Ends = Ends(),  # noqa: B008
    progress: Callable[[int], object] = lambda tokens: None,
    at_once: int = TOKENS_AT_ONCE,
    rare: np.ndarray | None = None,
) -> Read:
    """What a model gives each token of a text; rare: N, which types are rare.

    Log-probabilities are measured in windows: `probe.window - probe.context` new tokens after up to `probe.context` that
    were scored before. Predictions are made in blocks of `probe.block` without overlap; the first input of a block is the
    token before it (AGG's evaluation code). progress is told the sequences' tokens as they are read; at_once of
    them pass the model together, which changes the speed and the memory alone.
    """
    logprob, prediction = np.empty(len(text), np.float32), np.empty(len(text), np.int32)
    of_rare = None if rare is None else np.empty(len(text), np.float32)
    for reading, starts in readings(len(text), probe).items():
        skipped = 0 if reading.predicted else reading.scored or 0
        step = max(at_once // reading.length, 1)
        for first in range(0, len(starts), step):
            chosen = starts[first : first + step]
            rows = [_inputs(text, start, start + reading.length, ends) for start in chosen]
            given = logits(torch.from_numpy(np.stack(rows)), skipped)
            for start, row in zip(chosen, given, strict=True):
                end = min(start + reading.length, len(text))
                if reading.scored is not None:
                    begin = start + reading.scored
                    targets = torch.from_numpy(text[begin:end].astype(np.int64)).to(row.device)
                    place = reading.scored - skipped
                    scored = row[place : place + len(targets)]
                    logprob[begin:end] = -nn.functional.cross_entropy(scored, targets, reduction="none").cpu()
                    if of_rare is not None:
                        of_rare[begin:end] = (scored[:, rare].logsumexp(1) - scored.logsumexp(1)).cpu()
                if reading.predicted:
                    if ends.never is not None:
                        row[:, ends.never] = -math.inf
                    prediction[start:end] = row[: end - start].argmax(1).cpu()
            progress(len(chosen) * reading.length)
    return Read(logprob, prediction, of_rare)


def readings(length: int, probe: "Probe") -> dict[Reading, list[int]]:
    """The sequences to read, by their first positions; like ones together, so that a batch needs no padding.

    A window that is a block too is read once; with a block of one window and half of it context, that is every other one.
    """
    scored, new = {}, probe.window - probe.context
    for begin in range(0, length, new):
        seen = min(begin, probe.context)
        scored[begin - seen, seen + new] = seen
    blocks = {(begin, probe.block) for begin in range(0, length, probe.block)}
    readings = defaultdict(list)
    for start, size in sorted(scored.keys() | blocks):
        reading = Reading(size, scored.get((start, size)), (start, size) in blocks)
        readings[reading].append(start)
    return readings


def _inputs(text: np.ndarray, start: int, end: int, ends: Ends) -> np.ndarray:
    """The token before each of start..end; past the text stands its end mark, which no earlier position sees."""
    before = [ends.begin] if start == 0 else []
    row = np.concatenate((before, text[max(start - 1, 0) : min(end - 1, len(text))])).astype(np.int64)
    return np.pad(row, (0, end - start - len(row)), constant_values=ends.end)
