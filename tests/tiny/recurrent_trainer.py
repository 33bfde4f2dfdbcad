"""The real training loop with a recurrent language model on random tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from raretokens.loss.facts import facts
from raretokens.objectives.registry import build
from raretokens.vocabulary import PAD, SPECIALS
from reproduction.training.criterion import Carried
from reproduction.training.loop import Trainer
from reproduction.training.models.registry import build as build_model
from reproduction.training.recipe import Execution, Training
from reproduction.training.run import process
from reproduction.training.saving import Outputs
from reproduction.training.state import State
from reproduction.training.token_batches import Columns
from tiny.trainer import recorded

N = 24
PLAIN = dict.fromkeys(
    ("word_dropout", "embedding_dropout", "hidden_dropout", "context_dropout", "recurrent_dropout"), 0.0
) | {"activation_penalty": 2.0, "temporal_activation_penalty": 1.0}
MODELS = {
    "awd_lstm": {"layers": 2, "width": 8, "hidden": 12} | PLAIN,
    "awd_lstm_mos": {"layers": 2, "width": 8, "hidden": 12, "last": 10, "experts": 3, "output_dropout": 0.0} | PLAIN,
}
TRAINING = {"steps": 6, "tokens_per_step": 64, "block": 16, "peak_lr": 1.0, "weight_decay": 0.001, "label_smoothing": 0.0,
            "keep": "best", "snapshot_every": 4, "rule": {"name": "nt_asgd"}}  # fmt: skip


def text() -> np.ndarray:
    random = np.random.default_rng(0)
    return (len(SPECIALS) + random.random(1500) ** 2 * (N - len(SPECIALS))).astype(np.int64)


def trainer(folder: Path, architecture: str, name: str = "mle", *, dropout: float = 0.0, dtype: torch.dtype = torch.float32,
            micro_batch: int = 10_000, save_updates: int = 0, **options: Any) -> Trainer:  # fmt: skip
    """options: of the objective, and what of the recipe differs from TRAINING."""
    torch.set_default_dtype(dtype)
    torch.manual_seed(1)
    recipe = TRAINING | {key: options.pop(key) for key in Training.model_fields if key in options}
    recipe = Training(**{"validate_every": recipe["steps"], **recipe})
    execution = Execution(micro_batch, save_updates=save_updates)
    shape = {key: dropout if "dropout" in key else value for key, value in MODELS[architecture].items()}
    model, tokens = build_model(architecture, shape, N, 16), text()
    known = facts(
        torch.from_numpy(np.bincount(tokens, minlength=N)), width=8, steps_per_epoch=20, specials=4, pad=PAD
    )
    objective = build(name, known, **options)
    data = Columns(tokens, 16, 4, seed=1), Columns(tokens[:200], 16, 10)
    return recorded(Trainer(name, model, objective, recipe, *data, State(folder / f"{architecture}-{name}"), execution,
                            process(recipe.precision, execution, architecture), Outputs(folder / "out", {}),
                            criterion=Carried(model, objective)))  # fmt: skip
