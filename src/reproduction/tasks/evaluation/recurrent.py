"""Evaluate a recurrent language model on validation and test text: plain, with a cache pointer, or with dynamic evaluation.

The text is read in order, with the state carried from the first token to the last. The settings with the lowest NLL on the
validation text are used.

The continuous cache pointer (Grave et al., 2017) raises the probability of words that recently followed a similar state:
p = weight * p_cache + (1 - weight) * p_model. p_cache(w) is proportional to the sum of exp(theta * h_t . h_i) over the last
`window` positions i whose next word is w, where h are the states of the last layer. The cache is used from the first position
that has a whole window before it.

Dynamic evaluation (Krause et al., 2018) adapts the weights to the text and decays them towards the trained weights theta_0.
After each segment, with g the gradient of the segment's mean NLL,

    theta <- theta - rate * g / (RMS + epsilon) + decay * min(RMS / mean RMS, 1 / decay) * (theta_0 - theta)

where RMS is the root of the mean squared gradient over the training text. A segment is scored before the weights adapt to it.
"""

import json
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.vocabulary import EOS, PAD
from reproduction.corpora.tokenization.token_files import read_meta, tokens
from reproduction.tasks.evaluation.artifacts import write_array
from reproduction.tasks.evaluation.job_specs import CachePointer, DynamicEvaluation, RecurrentPredictJob
from reproduction.training.models.registry import build, load_weights

POSITIONS = 256  # positions per forward pass; affects speed only
ROWS = 512  # positions per block of the cache; affects speed only
SCORES = 1 << 19  # scores (positions x vocabulary) in memory at a time; a mixture needs as many for each expert
ByText = dict[str, np.ndarray]  # split -> ids or log-probabilities


def write_predictions(job: RecurrentPredictJob, folder: Path, trained: Path, into: Path) -> None:
    """Write <evaluation>-<split>.npy for each kind of evaluation, prediction.npy (test text) and chosen.json (settings).

    Raises:
        UserError: A text is too short for a cache window, or the training text for the batches of dynamic evaluation.
    """
    run, settings = job.run, job.evaluation
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], 1)
    load_weights(model, trained / "model.safetensors")
    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu")).eval()
    texts = {split: np.asarray(tokens(folder, split)) for split in ("valid", "test")}
    train = np.asarray(tokens(folder, "train")) if settings.dynamic else None
    if settings.dynamic and len(train) < settings.dynamic.sequences:
        raise UserError(
            f"recurrent.evaluation.dynamic.sequences: {settings.dynamic.sequences} is more than the {len(train)} tokens of the"
            f" training text; allowed: at most {len(train)}"
        )
    plain = {split: predict_text(model, text) for split, text in texts.items()}
    logprob: dict[str, ByText] = {"plain": {split: found.logprob for split, found in plain.items()}}
    chosen = {}
    if settings.pointer:
        chosen["pointer"], logprob["pointer"] = _with_cache(texts, plain, settings.pointer)
    if settings.dynamic:
        chosen["dynamic"], logprob["dynamic"] = _with_dynamic_evaluation(model, texts, train, settings.dynamic)
    for way, by_text in logprob.items():
        for split, values in by_text.items():
            write_array(into / f"{way}-{split}.npy", values)
    write_array(into / "prediction.npy", plain["test"].prediction)
    write_text(into / "chosen.json", json.dumps(chosen, indent=1) + "\n")
    nll = ", ".join(f"{way} {-by_text['test'].mean(dtype=float):.4f}" for way, by_text in logprob.items())
    print(f"predict {run.name}: {len(texts['test']):,} test tokens, mean NLL {nll}")


def _with_cache(texts: ByText, plain: "dict[str, Predictions]", declared: CachePointer) -> tuple[dict, ByText]:
    shortest = min(map(len, texts.values()))
    if max(declared.window) >= shortest:
        raise UserError(
            f"recurrent.evaluation.pointer.window: {max(declared.window)} is not below the {shortest} tokens of a text"
        )
    chosen = choose_cache(plain["valid"], texts["valid"], declared)
    return chosen._asdict(), {split: cache_logprob(plain[split], text, chosen) for split, text in texts.items()}


def _with_dynamic_evaluation(
    model: nn.Module, texts: ByText, train: np.ndarray, declared: DynamicEvaluation
) -> tuple[dict, ByText]:
    rms = gradient_rms(model, train, declared)
    starts = {split: text[: declared.tokens] for split, text in texts.items()}
    chosen = choose_dynamic(model, starts["valid"], rms, declared)
    found = {split: dynamic_logprob(model, text, rms, chosen, declared.length) for split, text in starts.items()}
    return chosen._asdict(), found


class Predictions(NamedTuple):
    """Predictions of a text without cache or dynamic evaluation."""

    logprob: np.ndarray  # natural log-probability of each token, float32
    prediction: np.ndarray  # most probable id at each position, int32
    states: Tensor  # states of the last layer, tokens x width, on the CPU


@torch.no_grad()
def predict_text(model: nn.Module, text: np.ndarray) -> Predictions:
    """Predict a text with a model like that of awd_lstm.py, in evaluation mode."""
    # Allocate all results first: small arrays between the large scores would fragment the memory that the scores free.
    states = torch.empty(len(text), model.layers[-1].hidden_size, dtype=torch.float32)
    found = Predictions(np.empty(len(text), np.float32), np.empty(len(text), np.int32), states)
    carried, start = None, 0
    for inputs, targets in segments(text, POSITIONS, model.embedding.device):
        output = model(inputs, carried)
        carried, here = output.carried, slice(start, start + targets.shape[1])
        found.states[here] = output.states[0]
        _score(model, output.hidden[0], targets[0], found.logprob[here], found.prediction[here])
        start = here.stop
    return found


def _score(model: nn.Module, hidden: Tensor, targets: Tensor, logprob: np.ndarray, prediction: np.ndarray) -> None:
    """Fill in the log-probability of each target and the most probable ids, a few positions at a time."""
    step = scored_at_once(model)
    for start in range(0, len(targets), step):
        batch = slice(start, start + step)
        scores = model.log_probabilities(hidden[batch]).float()
        logprob[batch] = scores.gather(1, targets[batch, None]).squeeze(1).cpu()
        scores[:, PAD] = -torch.inf
        prediction[batch] = scores.argmax(1).cpu()


def scored_at_once(model: nn.Module) -> int:
    """Return the number of positions to score at a time."""
    return max(SCORES // len(model.embedding), 1)


def segments(text: np.ndarray, positions: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield consecutive inputs and targets of a text (each 1 x positions); the first input is </s>."""
    ids = torch.from_numpy(np.concatenate(([EOS], text)).astype(np.int64)).to(device)[None]
    for start in range(0, len(text), positions):
        end = min(start + positions, len(text))
        yield ids[:, start:end], ids[:, start + 1 : end + 1]


class CacheSettings(NamedTuple):
    """Selected settings of the cache pointer."""

    window: int
    theta: float
    weight: float


def choose_cache(predictions: Predictions, text: np.ndarray, declared: CachePointer) -> CacheSettings:
    """Return the cache settings with the lowest NLL on a text."""
    nll = {}
    for window, theta in product(declared.window, declared.theta):
        cached = cache_probability(predictions.states, text, window, theta)
        for weight in declared.weight:
            mixed = mix_cache(predictions.logprob, cached, window, weight)
            nll[CacheSettings(window, theta, weight)] = -mixed.mean(dtype=np.float64)
    return min(nll, key=nll.__getitem__)


def cache_logprob(predictions: Predictions, text: np.ndarray, chosen: CacheSettings) -> np.ndarray:
    """Return the log-probability of each token with the cache, float32."""
    cached = cache_probability(predictions.states, text, chosen.window, chosen.theta)
    return mix_cache(predictions.logprob, cached, chosen.window, chosen.weight)


def mix_cache(logprob: np.ndarray, cached: np.ndarray, window: int, weight: float) -> np.ndarray:
    """Mix the model's log-probabilities with the cache's probabilities, which begin at position `window`."""
    together = logprob.astype(np.float64)
    with np.errstate(divide="ignore"):
        of_cache = np.log(weight) + np.log(cached)
    together[window:] = np.logaddexp(together[window:] + np.log1p(-weight), of_cache)
    return together.astype(np.float32)


def cache_probability(states: Tensor, text: np.ndarray, window: int, theta: float) -> np.ndarray:
    """Return the cache's probability of each token from position `window` on; states: tokens x d."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    states, words = states.to(device), torch.from_numpy(np.asarray(text, dtype=np.int64)).to(device)
    starts = range(window, len(words), ROWS)
    return np.concatenate([_cache_block(states, words, start, window, theta) for start in starts] or [np.zeros(0)])


def _cache_block(states: Tensor, words: Tensor, start: int, window: int, theta: float) -> np.ndarray:
    """Return cache_probability() of at most ROWS positions from `start` on."""
    end = min(start + ROWS, len(words))
    first = start - window
    scores = theta * states[start:end] @ states[first : end - 1].T  # positions x union of their windows
    age = torch.arange(start, end, device=words.device)[:, None] - torch.arange(first, end - 1, device=words.device)
    scores.masked_fill_((age < 1) | (age > window), -torch.inf)
    same = words[start:end, None] == words[None, first : end - 1]
    return (scores.softmax(1) * same).sum(1).double().cpu().numpy()


class DynamicSettings(NamedTuple):
    """Selected settings of dynamic evaluation."""

    rate: float
    decay: float
    epsilon: float


def gradient_rms(model: nn.Module, text: np.ndarray, declared: DynamicEvaluation) -> list[Tensor]:
    """Return the RMS of each weight's gradient over batches of the training text, read in order."""
    sums, number, carried = [torch.zeros_like(weight) for weight in model.parameters()], 0, None
    for inputs, targets in islice(_batches(text, declared, model.embedding.device), declared.batches):
        gradient, _, carried = _gradient(model, inputs, targets, carried)
        for total, part in zip(sums, gradient, strict=True):
            total.addcmul_(part, part)
        number += 1
    return [(total / number).sqrt() for total in sums]


def _batches(text: np.ndarray, declared: DynamicEvaluation, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs and targets of the training text, each sequences x positions."""
    rows = len(text) // declared.sequences
    ids = np.concatenate(([EOS], text[: rows * declared.sequences])).astype(np.int64)
    inputs, targets = (torch.from_numpy(part.reshape(declared.sequences, rows)) for part in (ids[:-1], ids[1:]))
    for start in range(0, rows, declared.length):
        chosen = slice(start, start + declared.length)
        yield inputs[:, chosen].to(device), targets[:, chosen].to(device)


def choose_dynamic(
    model: nn.Module, text: np.ndarray, rms: list[Tensor], declared: DynamicEvaluation
) -> DynamicSettings:
    """Return the settings of dynamic evaluation with the lowest NLL on a text. A single candidate is not evaluated."""
    candidates = [DynamicSettings(*values) for values in product(declared.rate, declared.decay, declared.epsilon)]
    if len(candidates) == 1:
        return candidates[0]
    return min(
        candidates,
        key=lambda chosen: -dynamic_logprob(model, text, rms, chosen, declared.length).mean(dtype=np.float64),
    )


def dynamic_logprob(
    model: nn.Module, text: np.ndarray, rms: list[Tensor], chosen: DynamicSettings, length: int
) -> np.ndarray:
    """Return the log-probability of each token (float32) by dynamic evaluation, then restore the trained weights."""
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
    """Return the gradient of the mean NLL, the log-probability of each target (flat), and the final state."""
    with torch.enable_grad():
        output = model(inputs, carried)
        step = scored_at_once(model)
        batches = zip(output.hidden.flatten(0, 1).split(step), targets.flatten().split(step), strict=True)
        # Recompute scores in the backward pass, so that only the scores of a few positions are in memory at a time.
        scored = torch.cat([checkpoint(_scored, model, *batch, use_reentrant=False) for batch in batches])
        gradient = torch.autograd.grad(-scored.mean(), list(model.parameters()))
    return gradient, scored.detach(), output.carried


def _scored(model: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    """Return the log-probability of each target; hidden: positions x width."""
    return model.log_probabilities(hidden).gather(1, targets[:, None]).squeeze(1)
