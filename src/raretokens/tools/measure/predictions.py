"""A causal language model's predictions for a text: perplexity and Uniq by frequency group, repetition in continuations.

A model folder is loaded by transformers from its files alone: no code of the folder is run, nothing is downloaded.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from raretokens.errors import UserError
from raretokens.evaluation.language_model import Ends, Predictions, predict_text, windows
from raretokens.evaluation.metrics import bootstrap
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.predictions import (
    continuation,
    perplexity,
    reference_continuations,
    token_share,
    uniq,
)
from raretokens.evaluation.score_files import Metrics
from raretokens.tokenization.vocabulary import PAD
from raretokens.tools.measure.formats import read_json
from raretokens.tools.measure.model import Model

MAX_LOGITS = 200_000_000  # numbers in memory at once; 0.8 GB


class Reading(NamedTuple):
    """How a text is read; in tokens."""

    window: int = 512  # of a forward pass for perplexity
    context: int = 400  # of the window, scored before
    block: int = 512  # for Uniq
    samples: int = 8  # continuations
    prefix: int = 50  # of a continuation
    length: int = 100  # of a continuation

    def within(self, max_positions: int | None) -> "Reading":
        """The same, no longer than the model."""
        if max_positions is None or max(self.window, self.block) <= max_positions:
            return self
        window = min(self.window, max_positions)
        return self._replace(
            window=window, context=min(self.context, window // 2), block=min(self.block, max_positions)
        )


class CausalModel(Protocol):
    """A model that predicts the next token."""

    device: torch.device
    types: int  # width of the logits

    def logits(self, ids: Tensor, first: int) -> Tensor: ...

    def continue_greedily(self, ids: Tensor, length: int, never: int | None) -> np.ndarray: ...


def measure_text(
    model: Model, causal: CausalModel, text: np.ndarray, groups: np.ndarray, reading: Reading
) -> tuple[Metrics, Replicates]:
    """Return the metrics of a text, and their values on bootstrapped texts. groups: frequency group of each id."""
    if len(text) and text.max() >= len(groups):
        raise UserError(f"{model.path}: the tokenizer has id {text.max()}, the embedding only {len(groups)} rows")
    logprob, prediction, _ = _read_text(model, causal, text, reading)
    metrics: Metrics = {
        "ppl": perplexity(logprob, text, groups, window=reading.window, context=reading.context, split="text"),
        "uniq": _sign_as_text(uniq(prediction, groups, block=reading.block)),
        "token_share": token_share(text, groups),
        **_measure_continuations(model, causal, text, reading),
    }
    replicates = {f"ppl.{name}": values for name, values in bootstrap.perplexity(logprob, text, groups).items()}
    replicates |= {f"uniq.{name}": values for name, values in bootstrap.uniq(prediction, groups).items()}
    return metrics, replicates


def _read_text(model: Model, causal: CausalModel, text: np.ndarray, reading: Reading) -> Predictions:
    begin = model.begin if model.begin is not None else 0
    ends = Ends(begin, model.line_end if model.line_end is not None else begin, model.special_ids[PAD])
    total = sum(sequence.length * len(starts) for sequence, starts in windows(len(text), reading).items())
    at_once = max(1, min(4096, MAX_LOGITS // causal.types))
    with tqdm(total=total, unit=" tokens", unit_scale=True, desc=f"{model.name}: reading", mininterval=1) as bar:
        return predict_text(causal.logits, text, reading, ends, bar.update, at_once)


def _measure_continuations(model: Model, causal: CausalModel, text: np.ndarray, reading: Reading) -> Metrics:
    """Metrics of evenly spaced prefixes of the text, as of the pipeline's; none if text or model is too short."""
    needed = reading.prefix + reading.length
    stride = (len(text) - needed) // reading.samples
    if stride < 1 or (model.max_positions or needed + 1) < needed + 1:
        return {}
    begin = model.begin if model.begin is not None else 0
    prefixes = [[begin, *text[start * stride : start * stride + reading.prefix]] for start in range(reading.samples)]
    made = causal.continue_greedily(torch.tensor(np.array(prefixes, np.int64)), reading.length, model.special_ids[PAD])
    written = reference_continuations(text, samples=reading.samples, prefix=reading.prefix, length=reading.length)
    return {
        "continuation": _sign_as_text(continuation(made, prefix=reading.prefix)),
        "continuation_of_text": _sign_as_text(continuation(written, prefix=reading.prefix, source="targets")),
    }


def _sign_as_text(signed: tuple[Any, str]) -> tuple[Any, str]:
    """The text is the user's, not a test split."""
    return signed[0], signed[1].replace("split:test", "split:text")


class PipelineModel:
    """A language model of the pipeline."""

    def __init__(self, model: Model, reading: Reading) -> None:
        from raretokens.models.registry import build, load_weights

        assert model.run is not None
        run, self.types = model.run.run, next(iter(model.embeddings.values())).shape[0]
        longest = max(reading.window, reading.block, 1 + reading.prefix + reading.length)
        self.device = _choose_device()
        self.model: nn.Module = build(run["architecture"], run["shape"], self.types, longest)
        load_weights(self.model, model.run.model)
        self.model.to(self.device).eval()

    def logits(self, ids: Tensor, first: int) -> Tensor:
        return (self.model(ids.to(self.device))[:, first:] @ self.model.embedding.T).float()

    @torch.no_grad()
    def continue_greedily(self, ids: Tensor, length: int, never: int | None) -> np.ndarray:
        for _ in range(length):
            scores = self.logits(ids, ids.shape[1] - 1)[:, 0]
            scores[:, never] = -torch.inf
            ids = torch.cat((ids, scores.argmax(1, keepdim=True).cpu()), dim=1)
        return ids[:, -length:].numpy().astype(np.int32)


class TransformersModel:
    """A causal model of transformers."""

    def __init__(self, folder: Path) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoModelForCausalLM

        options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        try:
            self.model = AutoModelForCausalLM.from_pretrained(folder, **options)
        except (ValueError, OSError, ImportError, KeyError) as error:
            raise UserError(f"{folder}: transformers cannot load it as a causal model: {error}") from None
        self.device = _choose_device()
        self.model.to(self.device).eval()
        self.model.generation_config.eos_token_id = None  # nothing ends a continuation
        self.types = self.model.get_output_embeddings().weight.shape[0]

    def logits(self, ids: Tensor, first: int) -> Tensor:
        return self.model(input_ids=ids.to(self.device), use_cache=False).logits[:, first:].float()

    @torch.no_grad()
    def continue_greedily(self, ids: Tensor, length: int, never: int | None) -> np.ndarray:
        ids = ids.to(self.device)
        made = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            num_beams=1,
            max_new_tokens=length,
            suppress_tokens=None if never is None else [never],
            pad_token_id=0 if never is None else never,
        )
        return made[:, -length:].cpu().numpy().astype(np.int32)


def load_causal_model(model: Model, reading: Reading, report: Callable[[str], object]) -> CausalModel | None:
    """Return None, and report why, if the model is not causal or transformers is not installed."""
    architectures = read_json(model.path / "config.json").get("architectures") if model.path.is_dir() else None
    names = " ".join(architectures or [])
    is_causal = model.run.task == "lm" if model.run is not None else "CausalLM" in names or "LMHead" in names
    if not is_causal:
        return report("no causal model: perplexity is left out")
    if model.run is not None:
        return PipelineModel(model, reading)
    try:
        return TransformersModel(model.path)
    except ModuleNotFoundError:
        return report("perplexity is left out: it needs transformers (pip install 'raretokens[transformers]')")


def _choose_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
