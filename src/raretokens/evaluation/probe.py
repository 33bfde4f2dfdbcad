"""Greedy continuations of the test text by a language model.

The Transformer's are made by CTranslate2, which keeps keys and values from step to step; those of other architectures by the
model itself, from the whole text at each step.

A language model on the test text: log-probabilities, predictions and continuations, for scoring.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ctranslate2
import numpy as np
import torch
from torch import nn

from raretokens.errors import UserError
from raretokens.evaluation.config import Continuation, ProbeJob
from raretokens.evaluation.ctranslate2_models import best_device, export_language_model
from raretokens.evaluation.language_model import teacher_forced
from raretokens.evaluation.metrics.predictions import find_paper_prefixes
from raretokens.files import atomic_write
from raretokens.models.decoder import Decoder
from raretokens.models.registry import build, load_weights
from raretokens.tokenization.token_files import read_meta, tokens
from raretokens.tokenization.vocabulary import EOS, PAD, RARE, VOCABULARY, Vocabulary


def continuations(
    model: nn.Module,
    activation: str | None,
    text: np.ndarray,
    declared: Continuation,
    threads: int,
    further: Sequence[int] = (),
) -> np.ndarray:
    """Ids that follow greedily on prefixes which are spread evenly over the text (AGG table 14): samples x length, int32.

    further: where prefixes begin whose continuations are wanted too, as further rows. </s> is a token like any other and ends
    nothing; <pad> is never chosen. Raises UserError where the text is too short.
    """
    prefix, length = declared.prefix, declared.length
    stride = (len(text) - prefix - length) // declared.samples
    if stride < 1:
        raise UserError(
            f"lm.probe.continuation: the test text has only {len(text)} tokens; take fewer or shorter samples"
        )
    # As in training, the first input is the </s> before the text.
    starts = [*(i * stride for i in range(declared.samples)), *further]
    rows = [[EOS, *text[start : start + prefix].tolist()] for start in starts]
    if not isinstance(model, Decoder):
        return _by_itself(model, rows, length)
    return _by_ctranslate2(model, activation or "", rows, length, threads)


@torch.no_grad()
def _by_itself(model: nn.Module, rows: list[list[int]], length: int) -> np.ndarray:
    ids = torch.tensor(rows, device=model.embedding.device)
    model.eval()
    for _ in range(length):
        scores = model(ids)[:, -1] @ model.embedding.T
        scores[:, PAD] = -torch.inf
        ids = torch.cat((ids, scores.argmax(1, keepdim=True)), dim=1)
    return ids[:, -length:].cpu().numpy().astype(np.int32)


def _by_ctranslate2(model: Decoder, activation: str, rows: list[list[int]], length: int, threads: int) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        pieces = export_language_model(model, activation, Path(folder))
        generator = ctranslate2.Generator(
            folder, device=best_device(), compute_type="float32", inter_threads=1, intra_threads=threads
        )
        # Before min_length the end token cannot be chosen: so <pad> is shut out, and the length is the same everywhere.
        results = generator.generate_batch(
            [[pieces[i] for i in row] for row in rows],
            min_length=length,
            max_length=length,
            end_token=pieces[PAD],
            include_prompt_in_result=False,
        )
    return np.array([result.sequences_ids[0] for result in results], dtype=np.int32)


class Probed(NamedTuple):
    logprob: np.ndarray  # of each test token, natural logarithm, float32
    prediction: np.ndarray  # most probable id at each position, int32
    rare: np.ndarray  # logarithm of the probability of the rare group at each position, float32
    continuation: np.ndarray  # samples x length, int32
    located: np.ndarray | None  # the same of the printed prefixes that the text has; None where it has none


def probe(job: ProbeJob, folder: Path, trained: Path, into: Path) -> None:
    """Write the trained model's log-probabilities, predictions and continuations of the test text, an array a file.

    folder: of the token files."""
    probed = language_model(job, folder, trained / "model.safetensors")
    for what, values in probed._asdict().items():
        if values is None:
            continue
        with atomic_write(into / f"{what}.npy") as part, open(part, "wb") as file:
            np.save(file, values)
    nll = -probed.logprob.mean(dtype=float)
    print(f"probe {job.run.name}: {len(probed.logprob):,} test tokens, mean NLL {nll:.4f}")


def language_model(job: ProbeJob, folder: Path, checkpoint: Path) -> Probed:
    run, asked = job.run, job.probe
    longest = max(asked.window, asked.block, 1 + asked.continuation.prefix + asked.continuation.length)
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], longest)
    load_weights(model, checkpoint)
    text = tokens(folder, "test")
    needed, samples = asked.continuation.prefix + asked.continuation.length, asked.continuation.samples
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    printed = [*find_paper_prefixes(text, vocabulary.tokens, needed).values()]
    continued = continuations(model, run.shape.get("activation"), text, asked.continuation, job.threads, printed)
    spread, paper_prefix_uniq = continued[:samples], continued[samples:] if printed else None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rare = vocabulary.frequency_groups(job.groups) == RARE
    read = teacher_forced(model.to(device).eval(), text, asked, rare)
    return Probed(*read, spread, paper_prefix_uniq)
