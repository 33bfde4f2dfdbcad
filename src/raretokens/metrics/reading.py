"""Read a text with a causal language model: the log-probability and the most probable token at each position."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.vocabulary import EOS, PAD

if TYPE_CHECKING:
    from typing import Protocol

    class Lengths(Protocol):
        """Lengths in tokens: a window of a forward pass, those of it that were scored before, and a block of predictions."""

        window: int
        context: int
        block: int


TOKENS_AT_ONCE = 4096  # tokens per forward pass; affects speed only
# ids (sequences x positions) and the first position to return -> logits, sequences x returned positions x N
Logits = Callable[[Tensor, int], Tensor]


class Window(NamedTuple):
    """Kind of a sequence of the text: its length, and which of its positions are scored or predicted."""

    length: int
    scored: int | None  # first position that is scored; None: no position is scored
    predicted: bool  # whether the most probable tokens are taken from the sequence


class Ends(NamedTuple):
    """Tokens before and after a text, and the token that is never predicted."""

    begin: int = EOS
    end: int = EOS
    never: int | None = PAD


class Predictions(NamedTuple):
    """Teacher-forced predictions of a text."""

    logprob: np.ndarray  # natural log-probability of each token, float32
    prediction: np.ndarray  # most probable id at each position, int32
    rare: np.ndarray | None  # natural log of the total probability of the rare types, float32; None unless requested


@torch.no_grad()
def predict_text(
    logits: Logits,
    text: np.ndarray,
    settings: "Lengths",
    ends: Ends = Ends(),  # noqa: B008
    progress: Callable[[int], object] = lambda tokens: None,
    at_once: int = TOKENS_AT_ONCE,
    rare: np.ndarray | None = None,
) -> Predictions:
    """Return the log-probability and the most probable token at each position of a text.

    Log-probabilities are measured in windows of `settings.window - settings.context` new tokens, after up to
    `settings.context` tokens that were scored before. Predictions are made in blocks of `settings.block` tokens without
    overlap. The first input of a block is the token before the block (AGG's evaluation code).

    Args:
        progress: Called with the number of tokens of each batch.
        at_once: Tokens per batch, which affects speed and memory only.
        rare: Which types are rare (N, bool), to also return their total log-probability.
    """
    logprob, prediction = np.empty(len(text), np.float32), np.empty(len(text), np.int32)
    of_rare = None if rare is None else np.empty(len(text), np.float32)
    for window, starts in windows(len(text), settings).items():
        skipped = 0 if window.predicted else window.scored or 0
        step = max(at_once // window.length, 1)
        for first in range(0, len(starts), step):
            batch = starts[first : first + step]
            rows = [_inputs(text, start, start + window.length, ends) for start in batch]
            given = logits(torch.from_numpy(np.stack(rows)), skipped)
            for start, row in zip(batch, given, strict=True):
                end = min(start + window.length, len(text))
                if window.scored is not None:
                    begin = start + window.scored
                    targets = torch.from_numpy(text[begin:end].astype(np.int64)).to(row.device)
                    position = window.scored - skipped
                    scored = row[position : position + len(targets)]
                    logprob[begin:end] = -nn.functional.cross_entropy(scored, targets, reduction="none").cpu()
                    if of_rare is not None:
                        of_rare[begin:end] = (scored[:, rare].logsumexp(1) - scored.logsumexp(1)).cpu()
                if window.predicted:
                    if ends.never is not None:
                        row[:, ends.never] = -math.inf
                    prediction[start:end] = row[: end - start].argmax(1).cpu()
            progress(len(batch) * window.length)
    return Predictions(logprob, prediction, of_rare)


def windows(length: int, settings: "Lengths") -> dict[Window, list[int]]:
    """Return the kinds of sequences to read and their start positions. Sequences of one kind need no padding in a batch.

    A window that coincides with a block is read once. If a block is as long as a window and half of the window is context,
    every other window coincides with a block.
    """
    scored, new = {}, settings.window - settings.context
    for begin in range(0, length, new):
        seen = min(begin, settings.context)
        scored[begin - seen, seen + new] = seen
    blocks = {(begin, settings.block) for begin in range(0, length, settings.block)}
    found = defaultdict(list)
    for start, size in sorted(scored.keys() | blocks):
        found[Window(size, scored.get((start, size)), (start, size) in blocks)].append(start)
    return found


def _inputs(text: np.ndarray, start: int, end: int, ends: Ends) -> np.ndarray:
    """Return the input ids of positions start to end, i.e. the previous token of each position.

    The end token, which no earlier position sees, pads inputs beyond the text.
    """
    before = [ends.begin] if start == 0 else []
    row = np.concatenate((before, text[max(start - 1, 0) : min(end - 1, len(text))])).astype(np.int64)
    return np.pad(row, (0, end - start - len(row)), constant_values=ends.end)
