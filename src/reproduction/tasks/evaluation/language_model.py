"""Predict a text with a language model: log-probabilities, most probable tokens and greedy continuations."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from raretokens.errors import UserError
from raretokens.loss.logits_objective import head_logits
from raretokens.loss.terms import PLAIN, Head
from raretokens.metrics.reading import Predictions, predict_text
from raretokens.vocabulary import EOS, PAD, RARE, VOCABULARY, Vocabulary

if TYPE_CHECKING:
    from reproduction.tasks.evaluation.job_specs import Continuation, LanguageModelEvaluation, LanguageModelPredictJob
    from reproduction.training.models.decoder import Decoder

def write_predictions(job: "LanguageModelPredictJob", folder: Path, trained: Path, into: Path) -> None:
    """Write one array per file: the fields of Predictions for the test text, and greedy continuations.

    continuation.npy is samples x length, int32. located.npy has the continuations of the prefixes in AGG table 14, where the
    text has any of them.
    """
    from reproduction.corpora.tokenization.token_files import tokens
    from reproduction.tasks.evaluation.artifacts import write_array
    from reproduction.tasks.evaluation.paper_prefixes import find_paper_prefixes
    from reproduction.training.models.registry import build, load_weights

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
    predictions = teacher_forced(model.to(device).eval(), text, settings, rare, Head(softcap=run.options.get("softcap")))
    arrays = predictions._asdict() | {"continuation": continued[:samples]}
    for name, values in (arrays | ({"located": continued[samples:]} if paper_prefixes else {})).items():
        write_array(into / f"{name}.npy", values)
    nll = -predictions.logprob.mean(dtype=float)
    print(f"predict {run.name}: {len(predictions.logprob):,} test tokens, mean NLL {nll:.4f}")


def teacher_forced(
    model: nn.Module,
    text: np.ndarray,
    settings: "LanguageModelEvaluation",
    rare: np.ndarray | None = None,
    head: Head = PLAIN,
) -> Predictions:
    """Return predict_text() for a model of models/, whose head gets final hidden states times the embedding matrix."""
    embedding = model.embedding

    def logits(inputs: Tensor, first: int) -> Tensor:
        hidden = model(inputs.to(embedding.device))[:, first:]
        return head_logits(hidden, embedding, head)

    return predict_text(logits, text, settings, rare=rare)


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
    at each step. </s> is an ordinary token that does not end a continuation. <pad> is never chosen. A soft-cap keeps the order
    of the logits, so it changes no continuation.

    Args:
        declared: Number of samples, and lengths of prefix and continuation in tokens.
        further: Start positions of further prefixes, whose continuations are appended as rows.
    Raises:
        UserError: The text is too short.
    """
    from reproduction.training.models.decoder import Decoder

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

    from reproduction.tasks.evaluation.ctranslate2_models import best_device, export_language_model

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
