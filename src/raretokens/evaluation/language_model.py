"""Predict a text with a language model: log-probabilities, most probable tokens and greedy continuations."""

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.tokenization.vocabulary import EOS, PAD, RARE, VOCABULARY, Vocabulary

if TYPE_CHECKING:
    from raretokens.evaluation.config import Continuation, LanguageModelEvaluation, LanguageModelPredictJob
    from raretokens.models.decoder import Decoder

TOKENS_AT_ONCE = 4096  # tokens per forward pass; affects speed only
# ids (sequences x positions) and the first position to return -> logits, sequences x returned positions x N
Logits = Callable[[Tensor, int], Tensor]


def write_predictions(job: "LanguageModelPredictJob", folder: Path, trained: Path, into: Path) -> None:
    """Write one array per file: the fields of Predictions for the test text, and greedy continuations.

    continuation.npy is samples x length, int32. located.npy has the continuations of the prefixes in AGG table 14, where the
    text has any of them.
    """
    from raretokens.evaluation.artifacts import write_array
    from raretokens.evaluation.metrics.predictions import find_paper_prefixes
    from raretokens.models.registry import build, load_weights
    from raretokens.tokenization.token_files import tokens

    run, settings = job.run, job.evaluation
    vocabulary, text = Vocabulary.read(folder / VOCABULARY), tokens(folder, "test")
    needed, samples = settings.continuation.prefix + settings.continuation.length, settings.continuation.samples
    model = build(run.architecture, run.shape, len(vocabulary), max(settings.window, settings.block, 1 + needed))
    load_weights(model, trained / "model.safetensors")
    paper_prefixes = [*find_paper_prefixes(text, vocabulary.tokens, needed).values()]
    activation = run.shape.get("activation")
    continued = continuations(model, activation, text, settings.continuation, job.threads, paper_prefixes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rare = vocabulary.frequency_groups(job.groups) == RARE
    predictions = teacher_forced(model.to(device).eval(), text, settings, rare)
    arrays = predictions._asdict() | {"continuation": continued[:samples]}
    for name, values in (arrays | ({"located": continued[samples:]} if paper_prefixes else {})).items():
        write_array(into / f"{name}.npy", values)
    nll = -predictions.logprob.mean(dtype=float)
    print(f"predict {run.name}: {len(predictions.logprob):,} test tokens, mean NLL {nll:.4f}")


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


def teacher_forced(
    model: nn.Module, text: np.ndarray, settings: "LanguageModelEvaluation", rare: np.ndarray | None = None
) -> Predictions:
    """Return predict_text() for a model of models/, whose logits are final hidden states times the embedding matrix."""
    embedding = model.embedding

    def logits(inputs: Tensor, first: int) -> Tensor:
        hidden = model(inputs.to(embedding.device))[:, first:]
        return (hidden @ embedding.T).float()

    return predict_text(logits, text, settings, rare=rare)


@torch.no_grad()
def predict_text(
    logits: Logits,
    text: np.ndarray,
    settings: "LanguageModelEvaluation",
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


def windows(length: int, settings: "LanguageModelEvaluation") -> dict[Window, list[int]]:
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


def continuations(
    model: nn.Module,
    activation: str | None,
    text: np.ndarray,
    declared: "Continuation",
    threads: int,
    further: Sequence[int] = (),
) -> np.ndarray:
    """Return greedy continuations (samples x length, int32) of prefixes at evenly spaced positions (AGG table 14).

    CTranslate2 continues Transformers, because it caches keys and values. Other architectures read the whole sequence again
    at each step. </s> is an ordinary token that does not end a continuation. <pad> is never chosen.

    Args:
        declared: Number of samples, and lengths of prefix and continuation in tokens.
        further: Start positions of further prefixes, whose continuations are appended as rows.
    Raises:
        UserError: The text is too short.
    """
    from raretokens.models.decoder import Decoder

    prefix, length = declared.prefix, declared.length
    stride = (len(text) - prefix - length) // declared.samples
    if stride < 1:
        raise UserError(
            f"lm.evaluation.continuation: the test text has only {len(text)} tokens; take fewer or shorter samples"
        )
    # The first input is </s>, as in training.
    starts = [*(i * stride for i in range(declared.samples)), *further]
    rows = [[EOS, *text[start : start + prefix].tolist()] for start in starts]
    if not isinstance(model, Decoder):
        return _continue_by_model(model, rows, length)
    return _continue_by_ctranslate2(model, activation or "", rows, length, threads)


@torch.no_grad()
def _continue_by_model(model: nn.Module, rows: list[list[int]], length: int) -> np.ndarray:
    ids = torch.tensor(rows, device=model.embedding.device)
    model.eval()
    for _ in range(length):
        scores = model(ids)[:, -1] @ model.embedding.T
        scores[:, PAD] = -torch.inf
        ids = torch.cat((ids, scores.argmax(1, keepdim=True)), dim=1)
    return ids[:, -length:].cpu().numpy().astype(np.int32)


def _continue_by_ctranslate2(
    model: "Decoder", activation: str, rows: list[list[int]], length: int, threads: int
) -> np.ndarray:
    import ctranslate2

    from raretokens.evaluation.ctranslate2_models import best_device, export_language_model

    with tempfile.TemporaryDirectory() as folder:
        names = export_language_model(model, activation, Path(folder))
        generator = ctranslate2.Generator(
            folder, device=best_device(), compute_type="float32", inter_threads=1, intra_threads=threads
        )
        # CTranslate2 excludes the end token before min_length. With <pad> as end token, <pad> is never chosen, and all
        # continuations have the same length.
        results = generator.generate_batch(
            [[names[i] for i in row] for row in rows],
            min_length=length,
            max_length=length,
            end_token=names[PAD],
            include_prompt_in_result=False,
        )
    return np.array([result.sequences_ids[0] for result in results], dtype=np.int32)
