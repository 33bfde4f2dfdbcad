"""What a run was: its model, its training and its decoding, as the hyper-parameter tables list them."""

import math
from typing import Any

from raretokens.run import Run
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.layout import Signed
from raretokens.training.job import Training

TRAINING = ("updates", "tokens_per_update", "peak_lr", "warmup", "weight_decay", "label_smoothing")


def identity(run: Run) -> dict[str, Any]:
    return {"run": run.name, "task": run.task, "objective": run.objective, "size": run.size, "seed": run.seed}


def training(artifacts: Artifacts) -> Signed:
    """How far the run went: epochs of its text, and the validation NLL as a share of that of a uniform guess."""
    summary, uniform = artifacts.summary, math.log(artifacts.vocabulary.types)
    return {
        "training.epochs": (summary["updates"] / summary["updates_per_epoch"], "of:training-text"),
        "training.nll_to_uniform": (summary["kept"]["valid_nll"] / uniform, "log:e|split:valid|over:ln(types)"),
    }


def hyperparameters(artifacts: Artifacts, training: Training, further: dict[str, Any]) -> list[list]:
    """[name, value] pairs; vocabulary is the number of rows of the table, parameters that of trained numbers."""
    facts = {
        **artifacts.run.shape,
        "vocabulary": len(artifacts.vocabulary),
        "parameters": artifacts.summary["parameters"],
    }
    facts |= {name: getattr(training, name) for name in TRAINING} | {"betas": "/".join(map(str, training.betas))}
    return [[name, value] for name, value in {**facts, **further, "precision": training.precision}.items()]
