"""Predict the test set with a classifier."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reproduction.corpora.tokenization.token_files import read_meta
from reproduction.tasks.evaluation.artifacts import write_array
from reproduction.tasks.evaluation.job_specs import ClassifierPredictJob

if TYPE_CHECKING:
    from torch import nn

TOKENS_AT_ONCE = 16384  # tokens per forward pass; affects speed only
# Model, folder of token files and maximum sequence length -> log-probabilities, examples x classes.
PredictTest = Callable[["nn.Module", Path, int], np.ndarray]


def write_predictions(
    job: ClassifierPredictJob, predict_test: PredictTest, folder: Path, trained: Path, into: Path
) -> None:
    """Write natural log-probabilities (test examples x classes, float32) in the order of the test set.

    predict_test: Function of the task that returns the log-probabilities.
    """
    import torch

    from reproduction.training.models.registry import build, load_weights

    run = job.run
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], job.block)
    load_weights(model, trained / "model.safetensors")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        logprob = predict_test(model.to(device).eval(), folder, job.block)
    write_array(into / "logprob.npy", logprob)
    print(f"predict {run.name}: {logprob.shape[0]:,} test examples, {logprob.shape[1]} classes")
