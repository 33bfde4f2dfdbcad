"""A recurrent language model on validation and test text: as it is, with a cache pointer, with dynamic evaluation."""

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

from raretokens.errors import UserError
from raretokens.evaluation import recurrent_adaptation as dynamic
from raretokens.evaluation import recurrent_adaptation as pointer
from raretokens.evaluation.config import Dynamic, EvaluateJob, Pointer
from raretokens.evaluation.recurrent_adaptation import Read, read
from raretokens.files import atomic_write, write_text
from raretokens.models.registry import build, load_weights
from raretokens.tokenization.token_files import read_meta, tokens

Texts = dict[str, np.ndarray]  # split -> ids
Found = dict[str, np.ndarray]  # split -> log-probabilities


def evaluate(job: EvaluateJob, folder: Path, trained: Path, into: Path) -> None:
    """Write <way>-<split>.npy, prediction.npy (of the test text) and chosen.json.

    folder: of the token files. Raises UserError where the text is too short for a window.
    """
    run, asked = job.run, job.evaluation
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], 1)
    load_weights(model, trained / "model.safetensors")
    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu")).eval()
    texts = {split: np.asarray(tokens(folder, split)) for split in ("valid", "test")}
    plain = {split: read(model, text) for split, text in texts.items()}
    ways: dict[str, Found] = {"plain": {split: found.logprob for split, found in plain.items()}}
    chosen = {}
    if asked.pointer:
        chosen["pointer"], ways["pointer"] = _pointed(texts, plain, asked.pointer)
    if asked.dynamic:
        chosen["dynamic"], ways["dynamic"] = _dynamic(model, texts, np.asarray(tokens(folder, "train")), asked.dynamic)
    for way, found in ways.items():
        for split, logprob in found.items():
            _write(into / f"{way}-{split}.npy", logprob)
    _write(into / "prediction.npy", plain["test"].prediction)
    write_text(into / "chosen.json", json.dumps(chosen, indent=1) + "\n")
    told = ", ".join(f"{way} {-found['test'].mean(dtype=float):.4f}" for way, found in ways.items())
    print(f"evaluate {run.name}: {len(texts['test']):,} test tokens, mean NLL {told}")


def _pointed(texts: Texts, plain: dict[str, Read], declared: Pointer) -> tuple[dict, Found]:
    shortest = min(map(len, texts.values()))
    if max(declared.window) >= shortest:
        raise UserError(
            f"recurrent.evaluation.pointer.window: {max(declared.window)} is not below the {shortest} tokens of a text"
        )
    chosen = pointer.choose_pointer(plain["valid"], texts["valid"], declared)
    return chosen._asdict(), {split: pointer.pointed(plain[split], text, chosen) for split, text in texts.items()}


def _dynamic(model: nn.Module, texts: Texts, train: np.ndarray, declared: Dynamic) -> tuple[dict, Found]:
    rms = dynamic.statistics(model, train, declared)
    starts = {split: text[: declared.tokens] for split, text in texts.items()}
    chosen = dynamic.choose_dynamic(model, starts["valid"], rms, declared)
    found = {split: dynamic.followed(model, text, rms, chosen, declared.length) for split, text in starts.items()}
    return chosen._asdict(), found


def _write(path: Path, values: np.ndarray) -> None:
    with atomic_write(path) as part, open(part, "wb") as file:
        np.save(file, values)
