"""Predictions of a causal language model for a text: perplexity and Uniq by frequency group, repetition in continuations.

The forward passes that predict the text also give the hidden states.

No perplexity is reported for a model whose file lacks parameters, or whose logits depend on later tokens, because it would be
meaningless.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.measure.hidden_states import HiddenStates
from raretokens.measure.model import Model
from raretokens.measure.notes import Notes
from raretokens.measure.transformers_models import TransformersModel
from raretokens.metrics import bootstrap
from raretokens.metrics.predictions import (
    continuation,
    perplexity,
    reference_continuations,
    token_share,
    uniq,
)
from raretokens.metrics.reading import Ends, Predictions, predict_text, windows
from raretokens.metrics.score_files import Metrics, Replicates
from raretokens.vocabulary import PAD

PROBE = 24  # tokens in the test whether a model is causal
MAX_LOGITS = 200_000_000  # logits in memory at once; 0.8 GB
RANKS = (10, 100, 1000, 10_000, 100_000, 1_000_000)  # the last frequency rank of each bin


class Reading(NamedTuple):
    """Lengths for reading a text, in tokens unless stated otherwise."""

    window: int = 512  # window of a forward pass for perplexity
    context: int = 400  # tokens at the start of a window that were scored before
    block: int = 512  # block for Uniq
    samples: int = 8  # number of continuations
    prefix: int = 50  # prefix of a continuation
    length: int = 100  # length of a continuation
    start: str = "first"  # windows and blocks in which the start token stands: the first, or every one

    def within(self, max_positions: int | None) -> "Reading":
        """Return the same lengths, limited to the model's number of positions."""
        if max_positions is None or max(self.window, self.block) <= max_positions:
            return self
        window, block = min(self.window, max_positions), min(self.block, max_positions)
        return self._replace(window=window, context=min(self.context, window // 2), block=block)


class CausalModel(Protocol):
    """A causal language model."""

    vocab_size: int
    dtype: torch.dtype

    def logits(self, ids: Tensor, first: int) -> Tensor:
        """Return the logits of the positions from `first` on (sequences x positions x N, float32)."""

    def logits_and_states(self, ids: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of all positions, and the hidden states of each layer (sequences x positions x d), if any."""


def measure_text(
    model: Model,
    causal: CausalModel,
    text: np.ndarray,
    groups: np.ndarray,
    reading: Reading,
    notes: Notes,
    ranks: np.ndarray | None = None,
) -> tuple[Metrics, Replicates]:
    """Return the metrics of a text of token ids, and their values on bootstrapped texts.

    `causal` is the model with its logits, `groups` the frequency group of each id, and `ranks` its frequency rank (0: none).
    Notes say why hidden states are left out.
    """
    rows = min(len(groups), causal.vocab_size)
    if len(text) and text.max() >= rows:
        raise UserError(f"the tokenizer gives id {text.max()}, but the ids of the model end at {rows - 1}")
    found = windows(len(text), reading)
    states = HiddenStates(len(text), reading.block, [start for kind in found if kind.predicted for start in found[kind]], notes)
    logprob, prediction, _ = _read_text(model, causal, text, reading, states)
    if wrong := int(np.sum(~np.isfinite(logprob))):
        raise UserError(f"{wrong} of {len(logprob)} log-probabilities are NaN or infinite")
    value, signature = perplexity(logprob, text, groups, window=reading.window, context=reading.context, split="text")
    types, how = _sign_as_text(uniq(prediction, groups, block=reading.block))
    start = f"|start-token:{reading.start}"
    metrics: Metrics = {
        "ppl": (value, signature + start),
        "uniq": (types, how + start),
        "token_share": token_share(text, groups),
        **_measure_continuations(model, causal, text, reading),
    }
    replicates = {f"ppl.{name}": values for name, values in bootstrap.perplexity(logprob, text, groups).items()}
    replicates |= {f"uniq.{name}": values for name, values in bootstrap.uniq(prediction, groups).items()}
    if ranks is not None:
        losses, resampled = loss_by_rank(logprob, text, ranks)
        how = f"log:e|mean:arithmetic|ranks:of-counted-text|window:{reading.window}|context:{reading.context}|split:text"
        metrics["loss_by_rank"] = losses, how + start
        replicates |= {f"loss_by_rank.{name}": values for name, values in resampled.items()}
    with notes.optional("hidden states"):
        of_states, replicates_of_states = states.metrics(f"start-token:{reading.start}")
        metrics, replicates = metrics | of_states, replicates | replicates_of_states
    return metrics, replicates


def loss_by_rank(
    logprob: np.ndarray, targets: np.ndarray, ranks: np.ndarray
) -> tuple[dict[str, float | None], dict[str, np.ndarray]]:
    """Return the mean loss of targets (nats) by the frequency rank of their type, and replicates over resampled blocks.

    Args:
        logprob: Natural log-probability of the target at each position.
        targets: Token id at each position.
        ranks: Frequency rank of each id, 1 for the most frequent; 0 for ids that are in no bin.
    Returns:
        Ranks such as 11-100 -> loss, None without such a target; ranks -> replicates, of bins with targets.

    Source: the loss by frequency of arXiv 2508.15390, in bins of our own.
    """
    blocks = min(bootstrap.BLOCKS, len(targets))
    block = np.arange(len(targets)) * blocks // len(targets)
    weights = np.stack([np.bincount(row, minlength=blocks) for row in bootstrap.resample(blocks)]).astype(float)
    found: dict[str, float | None] = {}
    replicates: dict[str, np.ndarray] = {}
    for low, high in zip((0, *RANKS), RANKS, strict=False):
        if ranks.max() <= low:
            break
        member = (ranks[targets] > low) & (ranks[targets] <= high)
        loss = np.bincount(block[member], -np.asarray(logprob, np.float64)[member], minlength=blocks)
        count, name = np.bincount(block[member], minlength=blocks), f"{low + 1}-{high}"
        found[name] = float(loss.sum() / count.sum()) if count.any() else None
        if count.any():
            with np.errstate(invalid="ignore", divide="ignore"):
                replicates[name] = (weights @ loss) / (weights @ count)
    return found, replicates


def _read_text(
    model: Model, causal: CausalModel, text: np.ndarray, reading: Reading, states: HiddenStates
) -> Predictions:
    """Predict the text, and add the hidden states of its blocks to `states`."""
    begin = model.begin or 0
    ends = Ends(begin, begin if model.line_end is None else model.line_end, model.special_ids[PAD])
    total = sum(sequence.length * len(starts) for sequence, starts in windows(len(text), reading).items())
    at_once = max(1, min(4096, MAX_LOGITS // causal.vocab_size))

    def logits(ids: Tensor, first: int) -> Tensor:
        if reading.start == "every":
            ids[:, 0] = begin
        if first or ids.shape[1] != reading.block:
            return causal.logits(ids, first)
        scores, of_layers = causal.logits_and_states(ids)  # a block
        states.add(of_layers)
        return scores

    with tqdm(total=total, unit=" tokens", unit_scale=True, desc=f"{model.name}: reading", mininterval=1) as bar:
        return predict_text(logits, text, reading, ends, bar.update, at_once)


def _measure_continuations(model: Model, causal: CausalModel, text: np.ndarray, reading: Reading) -> Metrics:
    """Measure continuations of evenly spaced prefixes of the text, as the pipeline does. Empty if text or model is too short."""
    needed = reading.prefix + reading.length
    stride = (len(text) - needed) // reading.samples
    if stride < 1 or (model.max_positions or needed + 1) < needed + 1:
        return {}
    starts = (stride * number for number in range(reading.samples))
    prefixes = [[model.begin or 0, *text[start : start + reading.prefix]] for start in starts]
    made = continue_greedily(causal, torch.tensor(np.array(prefixes, np.int64)), reading.length, model.special_ids[PAD])
    written = reference_continuations(text, samples=reading.samples, prefix=reading.prefix, length=reading.length)
    return {
        "continuation": _sign_as_text(continuation(made, prefix=reading.prefix)),
        "continuation_of_text": _sign_as_text(continuation(written, prefix=reading.prefix, source="targets")),
    }


@torch.no_grad()
def continue_greedily(causal: CausalModel, ids: Tensor, length: int, never: int | None) -> np.ndarray:
    """Append the most probable token at each step. Generation settings of the model folder are ignored."""
    for _ in range(length):
        scores = causal.logits(ids, ids.shape[1] - 1)[:, 0]
        if never is not None:
            scores[:, never] = -torch.inf
        ids = torch.cat((ids, scores.argmax(1, keepdim=True).cpu()), dim=1)
    return ids[:, -length:].numpy().astype(np.int32)


def _sign_as_text(signed: tuple[Any, str]) -> tuple[Any, str]:
    """Replace the test split in a signature, because the text is the user's."""
    return signed[0], signed[1].replace("split:test", "split:text")


def load_causal_model(model: Model) -> CausalModel:
    """Load the model to predict a text. Raise UserError if it is not a usable causal language model."""
    if model.is_on_hub:
        raise UserError("of hf:// models only the embeddings are downloaded; measure a folder, as `hf download` writes it")
    if not (model.path / "config.json").is_file():
        raise UserError("no config.json that describes the model")
    causal = TransformersModel(model.path)
    check_causal(causal, model.max_positions)
    return causal


@torch.no_grad()
def check_causal(causal: CausalModel, max_positions: int | None) -> None:
    """Raise UserError if the logits of earlier positions depend on later tokens."""
    length = min(PROBE, max_positions or PROBE)
    first = torch.from_numpy(np.random.default_rng(0).integers(0, causal.vocab_size, (4, length)))
    other, seen = first.clone(), length // 3
    other[:, seen:] = (first[:, seen:] + 1 + causal.vocab_size // 3) % causal.vocab_size
    before, after = (causal.logits(ids, 0)[:, :seen].float() for ids in (first, other))
    moved, scale = float((before - after).abs().max()), float(before.abs().max())
    rounding = 1e-4 if causal.dtype == torch.float32 else 0.03  # depends on the shape of a batch
    if not moved <= scale * rounding:
        raise UserError(
            f"the model is not causal: changing later tokens moves the logits of earlier positions by up to {moved:.3g}"
        )
