"""What a causal language model predicts: perplexity and Uniq by frequency group, repetition of greedy continuations.

A model folder is loaded by transformers from its files alone: no code of the folder, nothing from a network.
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
from raretokens.evaluation.language_model import Ends, Read, read, readings
from raretokens.evaluation.metrics import bootstrap as resampling
from raretokens.evaluation.metrics.bootstrap import Replicates
from raretokens.evaluation.metrics.predictions import continuation, human, perplexity, token_share, uniq
from raretokens.evaluation.score_files import Signed
from raretokens.tokenization.vocabulary import PAD
from raretokens.tools.measure.formats import tree
from raretokens.tools.measure.model import Model

LOGITS = 200_000_000  # numbers in memory at once; 0.8 GB


class Reach(NamedTuple):
    """How a text is read; in tokens."""

    window: int = 512  # of a forward pass when perplexity is measured
    context: int = 400  # of which this many were scored before
    block: int = 512  # of Uniq
    samples: int = 8  # continuations
    prefix: int = 50
    length: int = 100

    def within(self, positions: int | None) -> "Reach":
        """No longer than the model."""
        if positions is None or max(self.window, self.block) <= positions:
            return self
        window = min(self.window, positions)
        return self._replace(window=window, context=min(self.context, window // 2), block=min(self.block, positions))


class Predicting(Protocol):
    """A model that can be asked."""

    device: torch.device
    types: int

    def logits(self, ids: Tensor, first: int) -> Tensor: ...

    def continued(self, ids: Tensor, length: int, never: int | None) -> np.ndarray: ...


def ask(
    model: Model, predicting: Predicting, text: np.ndarray, groups: np.ndarray, reach: Reach
) -> tuple[Signed, Replicates]:
    """Metrics of a text, and the same on drawn texts. groups: frequency group of each id."""
    if len(text) and text.max() >= len(groups):
        raise UserError(f"{model.path}: the tokenizer has id {text.max()}, the table only {len(groups)} rows")
    logprob, prediction, _ = _read(model, predicting, text, reach)
    signed: Signed = {
        "ppl": perplexity(logprob, text, groups, window=reach.window, context=reach.context, split="text"),
        "uniq": _of_text(uniq(prediction, groups, block=reach.block)),
        "token_share": token_share(text, groups),
    }
    signed |= _continuations(model, predicting, text, reach)
    drawn = {f"ppl.{name}": values for name, values in resampling.perplexity(logprob, text, groups).items()}
    return signed, drawn | {f"uniq.{name}": values for name, values in resampling.uniq(prediction, groups).items()}


def _read(model: Model, predicting: Predicting, text: np.ndarray, reach: Reach) -> Read:
    begin = model.begin if model.begin is not None else 0
    ends = Ends(begin, model.line_end if model.line_end is not None else begin, model.marks[PAD])
    total = sum(reading.length * len(starts) for reading, starts in readings(len(text), reach).items())
    at_once = max(1, min(4096, LOGITS // predicting.types))
    with tqdm(total=total, unit=" tokens", unit_scale=True, desc=f"{model.name}: reading", mininterval=1) as bar:
        return read(predicting.logits, text, reach, ends, bar.update, at_once)


def _continuations(model: Model, predicting: Predicting, text: np.ndarray, reach: Reach) -> Signed:
    """None where the text is too short. Prefixes lie evenly in it, as those of the pipeline."""
    needed = reach.prefix + reach.length
    stride = (len(text) - needed) // reach.samples
    if stride < 1 or (model.positions or needed + 1) < needed + 1:
        return {}
    begin = model.begin if model.begin is not None else 0
    rows = [[begin, *text[start * stride : start * stride + reach.prefix]] for start in range(reach.samples)]
    made = predicting.continued(torch.tensor(np.array(rows, np.int64)), reach.length, model.marks[PAD])
    written = human(text, samples=reach.samples, prefix=reach.prefix, length=reach.length)
    return {
        "continuation": _of_text(continuation(made, prefix=reach.prefix)),
        "continuation_of_text": _of_text(continuation(written, prefix=reach.prefix, source="targets")),
    }


def _of_text(signed: tuple[Any, str]) -> tuple[Any, str]:
    """The text is the user's, not a test split."""
    return signed[0], signed[1].replace("split:test", "split:text")


class Own:
    """A run's own language model."""

    def __init__(self, model: Model, reach: Reach) -> None:
        from safetensors.torch import load_file

        from raretokens.models.registry import build

        assert model.run is not None
        run, rows = model.run.run, next(iter(model.tables.values())).shape[0]
        longest = max(reach.window, reach.block, 1 + reach.prefix + reach.length)
        self.device, self.types = _device(), rows
        self.model: nn.Module = build(run["architecture"], run["shape"], rows, longest)
        self.model.load_state_dict(load_file(model.run.model))
        self.model.to(self.device).eval()

    def logits(self, ids: Tensor, first: int) -> Tensor:
        return (self.model(ids.to(self.device))[:, first:] @ self.model.table.T).float()

    @torch.no_grad()
    def continued(self, ids: Tensor, length: int, never: int | None) -> np.ndarray:
        for _ in range(length):
            scores = self.logits(ids, ids.shape[1] - 1)[:, 0]
            scores[:, never] = -torch.inf
            ids = torch.cat((ids, scores.argmax(1, keepdim=True).cpu()), dim=1)
        return ids[:, -length:].numpy().astype(np.int32)


class Folder:
    """A causal model of transformers."""

    def __init__(self, path: Path) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoModelForCausalLM

        options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        try:
            self.model = AutoModelForCausalLM.from_pretrained(path, **options)
        except (ValueError, OSError, ImportError, KeyError) as error:
            raise UserError(f"{path}: transformers cannot load it as a causal model: {error}") from None
        self.device = _device()
        self.model.to(self.device).eval()
        self.model.generation_config.eos_token_id = None  # nothing ends a continuation
        self.types = self.model.get_output_embeddings().weight.shape[0]

    def logits(self, ids: Tensor, first: int) -> Tensor:
        return self.model(input_ids=ids.to(self.device), use_cache=False).logits[:, first:].float()

    @torch.no_grad()
    def continued(self, ids: Tensor, length: int, never: int | None) -> np.ndarray:
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


def predicting(model: Model, reach: Reach, say: Callable[[str], object]) -> Predicting | None:
    """None, with the reason said, where a model has no causal predictions or transformers is not installed."""
    if model.run is not None:
        return Own(model, reach) if model.run.task == "lm" else say("no causal model: perplexity is left out")
    config = tree(model.path / "config.json") if model.path.is_dir() else {}
    kinds = " ".join(config.get("architectures") or [])
    if not ("CausalLM" in kinds or "LMHead" in kinds):
        return say("no causal model: perplexity is left out")
    try:
        return Folder(model.path)
    except ModuleNotFoundError:
        return say("perplexity is left out: it needs transformers (pip install 'raretokens[transformers]')")


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
