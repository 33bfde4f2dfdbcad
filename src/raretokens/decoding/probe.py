"""What scoring needs to know of a language model: what it says of the test text."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from raretokens import config
from raretokens.models import build
from raretokens.subword.streams import read_meta, tokens
from raretokens.subword.vocabulary import EOS, PAD

TOKENS_AT_ONCE = 4096  # of a forward pass; changes the speed alone


class Probed(NamedTuple):
    logprob: np.ndarray  # of each test token, natural logarithm, float32
    prediction: np.ndarray  # most probable id at each position, int32
    continuation: np.ndarray  # samples x length, int32


def language_model(parameters: config.Parameters, run: config.Run, checkpoint: Path, folder: Path) -> Probed:
    """What the model says of the test text.

    Log-probabilities (natural) are measured in windows: `probe.window - probe.context` new tokens after up to
    `probe.context` that were scored before. Predictions (ids) are the most probable ones under teacher forcing in blocks of
    `probe.block` without overlap; the first input of a block is the token before it (AGG's evaluation code).
    """
    probe = parameters.lm.probe
    longest = max(probe.window, probe.block, 1 + probe.continuation.prefix + probe.continuation.length)
    model = build("lm", parameters.lm.sizes[run.size], read_meta(folder)["vocabulary"], longest)
    model.load_state_dict(load_file(checkpoint))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).eval()
    text = tokens(folder, "test")
    logprob, prediction = np.empty(len(text), np.float32), np.empty(len(text), np.int32)
    for starts, ends, logits in _scored(model, text, probe.window, probe.context, device):
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            target = torch.from_numpy(text[start:end].astype(np.int64)).to(device)
            new = logits[row, : end - start]
            logprob[start:end] = -nn.functional.cross_entropy(new, target, reduction="none").cpu()
    for starts, ends, logits in _scored(model, text, probe.block, 0, device):
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            new = logits[row, : end - start]
            new[:, PAD] = -math.inf
            prediction[start:end] = new.argmax(1).cpu()
    return Probed(logprob, prediction, _continued(model, text, probe.continuation, device))


@torch.no_grad()
def _continued(model: nn.Module, text: np.ndarray, declared: config.Continuation, device: torch.device) -> np.ndarray:
    """Greedy continuations of prefixes that are spread evenly over the text (AGG table 14): samples x length."""
    prefix, length = declared.prefix, declared.length
    stride = (len(text) - prefix - length) // declared.samples
    if stride < 1:
        raise config.UserError(
            f"lm.probe.continuation: the test text has only {len(text)} tokens; take fewer or shorter samples"
        )
    rows = np.stack([text[i * stride : i * stride + prefix] for i in range(declared.samples)]).astype(np.int64)
    # As in training, the first input is the </s> before the text.
    inputs = torch.from_numpy(np.pad(rows, ((0, 0), (1, 0)), constant_values=EOS)).to(device)
    for _ in range(length):
        logits = (model(inputs)[:, -1] @ model.table.T).float()
        logits[:, PAD] = -math.inf
        inputs = torch.cat((inputs, logits.argmax(1, keepdim=True)), dim=1)
    return inputs[:, prefix + 1 :].to(torch.int32).cpu().numpy()


@torch.no_grad()
def _scored(
    model: nn.Module, text: np.ndarray, window: int, context: int, device: torch.device
) -> Iterator[tuple[list[int], list[int], Tensor]]:
    """Logits of new tokens, window by window: (first new, past the last new, windows x new x N; the end may be padding)."""
    new = window - context
    starts = list(range(0, len(text), new))
    step = max(TOKENS_AT_ONCE // window, 1)
    for first in range(0, len(starts), step):
        chosen = starts[first : first + step]
        # The first windows have less context than the others; each kind is run on its own so that no padding is seen.
        for begins in _by_context(chosen, context):
            ends = [min(begin + new, len(text)) for begin in begins]
            seen = min(begins[0], context)
            inputs = torch.from_numpy(np.stack([_inputs(text, begin - seen, begin + new) for begin in begins]))
            hidden = model(inputs.to(device))[:, seen:]
            logits = (hidden @ model.table.T).float()
            yield begins, ends, logits


def _by_context(starts: list[int], context: int) -> Iterator[list[int]]:
    full = [start for start in starts if start >= context]
    yield from ([start] for start in starts if start < context)
    if full:
        yield full


def _inputs(text: np.ndarray, start: int, end: int) -> np.ndarray:
    """The token before each of start..end; past the text stands </s>, which no earlier position sees."""
    before = [EOS] if start == 0 else []
    row = np.concatenate((before, text[max(start - 1, 0) : min(end - 1, len(text))])).astype(np.int64)
    return np.pad(row, (0, end - start - len(row)), constant_values=EOS)
