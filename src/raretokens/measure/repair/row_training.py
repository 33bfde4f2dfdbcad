"""Train new rows of a causal model on a text. All other numbers of the model stay."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from raretokens.errors import UserError
from raretokens.measure.model import Model
from raretokens.measure.repair.selection import Selection
from raretokens.measure.texts import read_ids
from raretokens.measure.transformers_models import TransformersModel

WINDOW, BATCH = 256, 8  # tokens of a window; windows of a training step
SHOWN = 20  # training steps whose mean loss is reported


class RowTraining(NamedTuple):
    """A training of rows."""

    text: Path
    steps: int
    lr: float

    def record(self) -> dict[str, Any]:
        """Return the settings and the SHA-256 of the text, for repair.json."""
        with open(self.text, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"steps": self.steps, "lr": self.lr, "window": WINDOW, "batch": BATCH, "text_sha256": digest}


def train_rows(
    folder: Path, model: Model, selections: list[Selection], training: RowTraining, seed: int
) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Train the rows whose tokens the text contains, by AdamW in float32 with a learning rate that falls to 0.

    The softmax would push the row of a token that never occurs in the text away from all contexts, as the model's own training
    did. So such rows do not train. Training windows are those that contain a token to train.

    Args:
        folder: the model with its new rows.
        model: the original, whose tokenizer encodes the text.

    Returns:
        Ids and numbers of the trained rows for each selection, and a line that reports the training.

    Raises:
        UserError: if transformers or the tokenizer is missing, the model is not causal, or no such token occurs.
    """
    if model.tokenizer is None:
        raise UserError(f"--text: {model.path} has no tokenizer that encodes the text")
    ids = read_ids(model.tokenizer, training.text, model.line_end, None)
    occurring = np.unique(ids)
    rows = [np.intersect1d(one.rows, occurring) for one in selections]
    wanted = np.unique(np.concatenate(rows))
    length = min(WINDOW, model.max_positions or WINDOW, len(ids))
    starts = np.unique(np.append(np.arange(0, len(ids) - length + 1, length), len(ids) - length))
    windows = [ids[start : start + length] for start in starts]
    windows = [window for window in windows if np.isin(window, wanted).any()]
    if not windows or length < 2:
        raise UserError(f"--text: {training.text} contains none of the tokens whose rows were taken")
    try:
        read = TransformersModel(folder)
    except ModuleNotFoundError:
        raise UserError("--text: training needs transformers (pip install transformers)") from None
    except UserError as error:
        raise UserError(f"--text: {model.path}: {error}") from None
    network = read.model.float().requires_grad_(False)
    weights = [_weight(network, one) for one in selections]
    for weight, trained in zip(weights, rows, strict=True):
        _train_only(weight, trained)
    losses = _train(read, weights, windows, training, seed)
    results = [(ids, weight.detach()[ids].cpu().numpy()) for ids, weight in zip(rows, weights, strict=True)]
    line = (
        f"trained on {training.text}: the rows of {len(wanted)} tokens, which occur in it, {training.steps} steps; "
        f"loss {np.mean(losses[:SHOWN]):.3f} in the first steps, {np.mean(losses[-SHOWN:]):.3f} in the last"
    )
    return results, line


def _weight(network: Any, selection: Selection) -> torch.nn.Parameter:
    module = network.get_input_embeddings() if "input" in selection.role else network.get_output_embeddings()
    if tuple(module.weight.shape) != tuple(selection.stored.shape):
        raise UserError(f"--text: {selection.stored.name} has another shape in the model that transformers loads")
    return module.weight


def _train_only(weight: torch.nn.Parameter, rows: np.ndarray) -> None:
    """Let only some rows have gradients. Adam without decay keeps a row whose gradients are all 0."""
    mask = torch.zeros(len(weight), 1, device=weight.device)
    mask[torch.as_tensor(rows)] = 1
    weight.requires_grad_(True).register_hook(lambda gradient: gradient * mask)


def _train(
    read: TransformersModel, weights: list[torch.nn.Parameter], windows: list[np.ndarray], training: RowTraining, seed: int
) -> list[float]:
    """Return the loss of each step."""
    random = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(weights, lr=training.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / training.steps)
    losses, order = [], np.empty(0, np.int64)
    for _ in range(training.steps):
        while len(order) < BATCH:
            order = np.append(order, random.permutation(len(windows)))
        batch = torch.as_tensor(np.stack([windows[place] for place in order[:BATCH]]))
        order = order[BATCH:]
        loss = _loss(read, batch)
        if not torch.isfinite(loss):
            raise UserError("--text: the loss is NaN or infinite; lower --lr")
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def _loss(read: TransformersModel, batch: Tensor) -> Tensor:
    logits = read.logits(batch, 0)[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten().to(logits.device))
