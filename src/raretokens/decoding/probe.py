"""A language model on the test text: log-probabilities, predictions and continuations, for scoring."""

import math
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from raretokens.decoding.continuation import continuations
from raretokens.decoding.job import Probe, ProbeJob
from raretokens.files import whole
from raretokens.models.building import build
from raretokens.subword.printed_prefixes import located
from raretokens.subword.streams import read_meta, tokens
from raretokens.subword.vocabulary import EOS, PAD, VOCABULARY, Vocabulary

TOKENS_AT_ONCE = 4096  # of a forward pass; changes the speed alone


class Probed(NamedTuple):
    logprob: np.ndarray  # of each test token, natural logarithm, float32
    prediction: np.ndarray  # most probable id at each position, int32
    continuation: np.ndarray  # samples x length, int32
    located: np.ndarray | None  # the same of the printed prefixes that the text has; None where it has none


class Reading(NamedTuple):
    """What a sequence of the text is read for."""

    length: int
    scored: int | None  # place in it from which on tokens are scored; None: none is
    predicted: bool  # whether its positions give predictions


def probe(job: ProbeJob, folder: Path, trained: Path, into: Path) -> None:
    """Write the trained model's log-probabilities, predictions and continuations of the test text, an array a file.

    folder: of the token files."""
    probed = language_model(job, folder, trained / "model.safetensors")
    for what, values in probed._asdict().items():
        if values is None:
            continue
        with whole(into / f"{what}.npy") as part, open(part, "wb") as file:
            np.save(file, values)
    nll = -probed.logprob.mean(dtype=float)
    print(f"probe {job.run.name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


def language_model(job: ProbeJob, folder: Path, checkpoint: Path) -> Probed:
    run, asked = job.run, job.probe
    longest = max(asked.window, asked.block, 1 + asked.continuation.prefix + asked.continuation.length)
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], longest)
    model.load_state_dict(load_file(checkpoint))
    text = tokens(folder, "test")
    needed, samples = asked.continuation.prefix + asked.continuation.length, asked.continuation.samples
    printed = [*located(text, Vocabulary.read(folder / VOCABULARY).pieces, needed).values()]
    continued = continuations(model, run.shape.get("activation"), text, asked.continuation, job.threads, printed)
    spread, of_printed = continued[:samples], continued[samples:] if printed else None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Probed(*teacher_forced(model.to(device).eval(), text, asked), spread, of_printed)


@torch.no_grad()
def teacher_forced(model: nn.Module, text: np.ndarray, probe: Probe) -> tuple[np.ndarray, np.ndarray]:
    """Log-probability of each token (natural, float32), and the most probable id at each position (int32).

    Log-probabilities are measured in windows: `probe.window - probe.context` new tokens after up to `probe.context` that
    were scored before. Predictions are made in blocks of `probe.block` without overlap; the first input of a block is the
    token before it (AGG's evaluation code).
    """
    logprob, prediction = np.empty(len(text), np.float32), np.empty(len(text), np.int32)
    for reading, starts in _readings(len(text), probe).items():
        skipped = 0 if reading.predicted else reading.scored
        step = max(TOKENS_AT_ONCE // reading.length, 1)
        for first in range(0, len(starts), step):
            chosen = starts[first : first + step]
            inputs = torch.from_numpy(np.stack([_inputs(text, start, start + reading.length) for start in chosen]))
            hidden = model(inputs.to(model.table.device))[:, skipped:]
            logits = (hidden @ model.table.T).float()  # sequences x positions x N
            for start, row in zip(chosen, logits, strict=True):
                end = min(start + reading.length, len(text))
                if reading.scored is not None:
                    begin = start + reading.scored
                    targets = torch.from_numpy(text[begin:end].astype(np.int64)).to(row.device)
                    place = reading.scored - skipped
                    scored = row[place : place + len(targets)]
                    logprob[begin:end] = -nn.functional.cross_entropy(scored, targets, reduction="none").cpu()
                if reading.predicted:
                    row[:, PAD] = -math.inf
                    prediction[start:end] = row[: end - start].argmax(1).cpu()
    return logprob, prediction


def _readings(length: int, probe: Probe) -> dict[Reading, list[int]]:
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


def _inputs(text: np.ndarray, start: int, end: int) -> np.ndarray:
    """The token before each of start..end; past the text stands </s>, which no earlier position sees."""
    before = [EOS] if start == 0 else []
    row = np.concatenate((before, text[max(start - 1, 0) : min(end - 1, len(text))])).astype(np.int64)
    return np.pad(row, (0, end - start - len(row)), constant_values=EOS)
