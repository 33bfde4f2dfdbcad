"""The real training loop on random token files, for the contract of every objective."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretokens.loss.facts import Facts
from raretokens.objectives.registry import build
from raretokens.vocabulary import EOS, PAD, SPECIALS
from reproduction.corpora.tokenization import token_files as streams
from reproduction.training.example_batches import Pairs
from reproduction.training.loop import Trainer
from reproduction.training.models.registry import build as build_model
from reproduction.training.recipe import Execution, Observer, Observers, Training
from reproduction.training.run import process
from reproduction.training.saving import Outputs
from reproduction.training.state import State
from reproduction.training.token_batches import Blocks

N = 40
ARCHITECTURES = {"lm": "decoder", "nmt": "encoder_decoder"}
TRAINING = {"steps": 6, "tokens_per_step": 64, "block": 8, "peak_lr": 0.01, "warmup": 2, "weight_decay": 0.1,
            "label_smoothing": 0.1, "keep": "best", "snapshot_every": 4}  # fmt: skip


def write_tokens(folder: Path) -> None:
    """A stream of falling frequency, and 60 sentence pairs."""
    random = np.random.default_rng(0)
    ids = (len(SPECIALS) + random.random(4000) ** 2 * (N - len(SPECIALS))).astype("<u2")
    ids[:2000].tofile(folder / "lm.bin")
    sentences = [np.append(ids[i * 8 : i * 8 + random.integers(2, 8)], EOS) for i in range(120)]
    np.concatenate(sentences).astype("<u2").tofile(folder / "nmt.bin")
    streams.write_meta(folder, {"dtype": "<u2"})


def trainer(folder: Path, task: str, name: str, *, dropout: float = 0.0, dtype: torch.dtype = torch.float64,
            tokens: int | None = None, micro_batch: int = 10_000, save_updates: int = 0, workers: int = 0, compile: bool = False,
            observer: Observer | None = None, **options: Any) -> Trainer:  # fmt: skip
    """A trainer of an objective; floats are of `dtype`.

    tokens: only so many of the language model's text; options: of the objective, and what of the recipe differs from TRAINING.
    """
    torch.set_default_dtype(dtype)
    torch.manual_seed(1)
    recipe = TRAINING | {key: options.pop(key) for key in Training.model_fields if key in options}
    recipe = Training(**{"validate_every": recipe["steps"], **recipe})
    execution = Execution(micro_batch, workers, compile, save_updates=save_updates)
    accelerator = process(recipe.precision, execution, ARCHITECTURES[task])
    rank = accelerator.process_index
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "activation": "relu"}
    shape |= {"dropout": dropout, "attention_dropout": dropout}
    model, objective = build_model(ARCHITECTURES[task], shape, N, 16), build(name, facts(folder), **options)
    state = State(folder / f"scratch/{task}-{name}", rank)
    outputs = Outputs(folder / "out" / name, {"parameters": 9}, rank == 0)
    return recorded(Trainer(f"{task}/{name}", model, objective, recipe, *data(folder, task, recipe, tokens), state, execution,
                            accelerator, outputs, observer or Observer()))  # fmt: skip


class Recorder(Observer):
    """Keeps the rows of the log that this process trains, with all their digits."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def after_step(self, row: dict, tokens: int) -> None:
        self.rows.append(dict(row))


def recorded(trained: Trainer) -> Trainer:
    """The trainer, with its rows in `rows`."""
    recorder = Recorder()
    trained.observer, trained.rows = Observers(recorder, trained.observer), recorder.rows
    return trained


def data(folder: Path, task: str, recipe: Training, tokens: int | None) -> tuple[Blocks | Pairs, Blocks | Pairs]:
    if task == "lm":
        text = streams.tokens(folder, "lm")
        return Blocks(text[:tokens], 8, recipe.tokens_per_step, 1), Blocks(text[:100], 8)
    pairs = streams.Bitext(folder, "nmt")
    return Pairs(pairs, 8, recipe.tokens_per_step, 1), Pairs(pairs, 8)


def facts(folder: Path) -> Facts:
    return Facts(
        counts=torch.from_numpy(np.bincount(streams.tokens(folder, "lm"), minlength=N)), rare=torch.arange(N) >= 30, types=N - 2,
        specials=len(SPECIALS), pad=PAD, steps_per_epoch=4, width=16, label_smoothing=0.1,
    )  # fmt: skip


def weights(trained: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trained.model.state_dict().items()}
