"""The real training loop on random token files, for the contract of every objective."""

from pathlib import Path

import numpy as np
import torch

from raretokens import objectives
from raretokens.config import Size, Training
from raretokens.loss.objective import Facts
from raretokens.machine.settings import Machine
from raretokens.models.building import build
from raretokens.subword import streams
from raretokens.subword.vocabulary import EOS, PAD, SPECIALS
from raretokens.training.blocks import Blocks
from raretokens.training.loop import Trainer
from raretokens.training.outputs import Outputs
from raretokens.training.pairs import Pairs
from raretokens.training.run import process

N = 40


def write_tokens(folder: Path) -> None:
    """A stream of falling frequency, and 60 sentence pairs."""
    random = np.random.default_rng(0)
    ids = (len(SPECIALS) + random.random(4000) ** 2 * (N - len(SPECIALS))).astype("<u2")
    ids[:2000].tofile(folder / "lm.bin")
    sentences = [np.append(ids[i * 8 : i * 8 + random.integers(2, 8)], EOS) for i in range(120)]
    np.concatenate(sentences).astype("<u2").tofile(folder / "nmt.bin")
    streams.write_meta(folder, {"dtype": "<u2"})


def trainer(folder: Path, task: str, name: str, *, updates: int = 6, micro_batch: int = 10_000, dropout: float = 0.0,
            save_updates: int = 0, dtype: torch.dtype = torch.float64, tokens_per_update: int = 64, tokens: int | None = None,
            keep: int | str = "best", validate_every: int | str | None = None, machine: dict | None = None,
            precision: str = "float32", **options: object) -> Trainer:  # fmt: skip
    """A trainer of an objective on that task; floats are of `dtype`. tokens: only so many of the language model's text."""
    torch.set_default_dtype(dtype)
    torch.manual_seed(1)
    training = Training(updates=updates, tokens_per_update=tokens_per_update, block=8, peak_lr=0.01, warmup=2,
                        weight_decay=0.1, label_smoothing=0.1, validate_every=validate_every or updates, keep=keep,
                        snapshot_every=4)  # fmt: skip
    size = Size(
        layers=1, width=16, heads=2, feedforward=16, dropout=dropout, attention_dropout=dropout, activation="relu"
    )
    if task == "lm":
        text = streams.tokens(folder, "lm")
        data = Blocks(text[:tokens], 8, tokens_per_update, 1), Blocks(text[:100], 8)
    else:
        pairs = streams.Bitext(folder, "nmt")
        data = Pairs(pairs, 8, 64, 1), Pairs(pairs, 8)
    facts = Facts(
        counts=torch.from_numpy(np.bincount(streams.tokens(folder, "lm"), minlength=N)), rare=torch.arange(N) >= 30, types=N - 2,
        specials=len(SPECIALS), pad=PAD, updates_per_epoch=4, width=16, label_smoothing=0.1,
    )  # fmt: skip
    settings = Machine(micro_batch=micro_batch, save_updates=save_updates, report_seconds=1e9, **(machine or {}))
    accelerator = process(precision, settings)
    rank = accelerator.process_index
    scratch, outputs = (
        Folder(f"{task}-{name}", "x", folder / "scratch", rank),
        Outputs(folder / "out" / name, {}, rank == 0),
    )
    model, objective = build(task, size, N, 16), objectives.build(name, facts, **options)
    return Trainer(f"{task}/{name}", model, objective, training, *data, scratch, settings, accelerator, outputs)


def weights(trained: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trained.model.state_dict().items()}
