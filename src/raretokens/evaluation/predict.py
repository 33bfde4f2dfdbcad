"""Predict the test set with a trained classifier: log-probabilities of the classes, for scoring."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from raretokens.evaluation.config import PredictJob
from raretokens.files import atomic_write
from raretokens.models.registry import build, load_weights
from raretokens.tokenization.token_files import read_meta

TOKENS_AT_ONCE = 16384  # of a forward pass; changes the speed alone
PredictTest = Callable[[nn.Module, Path, int], np.ndarray]  # model, token files, longest sequence -> examples x classes


def predict(job: PredictJob, predict_test: PredictTest, folder: Path, trained: Path, into: Path) -> None:
    """Write log-probabilities of test examples x classes (natural, float32), in the order of the text.

    predict_test: `predict` of the task; folder: of the token files.
    """
    run = job.run
    model = build(run.architecture, run.shape, read_meta(folder)["vocabulary"], job.block)
    load_weights(model, trained / "model.safetensors")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        logprob = predict_test(model.to(device).eval(), folder, job.block)
    with atomic_write(into / "logprob.npy") as part, open(part, "wb") as file:
        np.save(file, logprob)
    print(f"predict {run.name}: {logprob.shape[0]:,} test examples, {logprob.shape[1]} classes")
