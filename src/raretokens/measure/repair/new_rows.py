"""New rows: draws like the trained rows, or means of the rows of subword tokens, and their training on a text."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch
from torch import Tensor
from torch.nn import functional

from raretokens.errors import UserError
from raretokens.measure.model import Model
from raretokens.measure.repair.selection import Selection
from raretokens.measure.stored_matrix import DTYPES, StoredMatrix
from raretokens.measure.texts import read_ids
from raretokens.measure.tokenizers import ModelTokenizer, library_tokenizer
from raretokens.measure.transformers_models import TransformersModel

BLOCK = 1024  # rows that are read at once
PLACEHOLDER = "\U000f0000removed {}"  # name of a removed token; no text contains the first character
STARTS = "abcdefghijklmnopqrstuvwxyz0123456789"  # begin a word, so that a token within words can be split
WINDOW, BATCH = 256, 8  # tokens of a window; windows of a training step
SHOWN = 20  # training steps whose mean loss is reported


def draw_rows(selection: Selection, seed: int, scale: float) -> np.ndarray:
    """Draw new rows (taken rows x width, float64) from a normal distribution with mean and covariance of the trained rows.

    A draw is the mean plus a weighted sum of the centred trained rows, whose weights are standard normal, divided by the square
    root of their number minus one. So no covariance matrix is stored. The weights depend on the seed, the id of the new row and
    the ids of the trained rows alone. An input and an output embedding thus get draws from their joint distribution.

    Args:
        scale: factor of the standard deviations. 0: exactly the mean.
    """
    stored, trained = selection.stored, np.flatnonzero(selection.trained)
    places = [trained[start : start + BLOCK] for start in range(0, len(trained), BLOCK)]
    total = sum((stored.read(ids).sum(axis=0, dtype=np.float64) for ids in places), np.zeros(stored.shape[1]))
    mean = total / len(trained)
    new = np.tile(mean, (len(selection.rows), 1))
    if scale:
        generators = [np.random.default_rng([seed, int(row)]) for row in selection.rows]
        factor = scale / np.sqrt(len(trained) - 1)
        for start in range(0, stored.shape[0], BLOCK):
            ids = np.arange(start, min(start + BLOCK, stored.shape[0]))
            weights = np.stack([generator.standard_normal(len(ids)) for generator in generators])
            kept = selection.trained[ids]
            new += factor * (weights[:, kept] @ (stored.read(ids[kept]).astype(np.float64) - mean))
    return new


def average_pieces(selection: Selection, tokenizer: ModelTokenizer | None, new: np.ndarray) -> np.ndarray:
    """Replace new rows by the mean row of their token's subword tokens. Return the ids of the rows that have such a mean.

    Args:
        new: taken rows x width, changed in place. A row stays if its token cannot be split.
    """
    allowed = np.ones(selection.stored.shape[0], bool)
    allowed[selection.untrained] = allowed[selection.broken] = False
    splits = split_tokens(tokenizer, selection.rows.tolist(), selection.untrained.tolist(), allowed)
    for place, row in enumerate(selection.rows.tolist()):
        if row in splits:
            new[place] = selection.stored.read(np.array(splits[row])).mean(axis=0, dtype=np.float64)
    return np.array(sorted(splits), np.int64)


def encode_rows(rows: np.ndarray, stored: StoredMatrix) -> np.ndarray:
    """Return rows as the numbers that the file stores, rounded to nearest. bfloat16 is returned as uint16.

    Raises:
        UserError: if a number is NaN or too large for the type.
    """
    with np.errstate(over="ignore"):
        if stored.dtype == "BF16":
            bits = rows.astype("<f4").view("<u4")
            encoded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(DTYPES["BF16"])
            is_finite = (encoded & 0x7F80) != 0x7F80
        else:
            encoded = rows.astype(DTYPES[stored.dtype])
            is_finite = np.isfinite(encoded)
    if not is_finite.all():
        raise UserError(f"{stored.path}: {stored.name}: a new row contains NaN or a number too large for {stored.form}")
    return encoded


# Subword tokens that the tokenizer would give for a token if it lacked the token.


def split_tokens(
    tokenizer: ModelTokenizer | None, ids: Iterable[int], removed: Iterable[int], allowed: np.ndarray
) -> dict[int, list[int]]:
    """Return token -> ids of the subword tokens that the tokenizer gives for it once it lacks the tokens `removed`.

    A token is left out if it has no such split: its tokenizer is not of the library tokenizers, a part of its string is unknown
    without it, or one of the subword tokens is not allowed.

    Args:
        ids: tokens to split, which are also in `removed`.
        removed: ids of tokens that the tokenizer should lack.
        allowed: mask of the ids that a split may contain.
    """
    library = library_tokenizer(tokenizer)
    if library is None:
        return {}
    try:
        declared = json.loads(library.to_str())
        unknown = _unknown_id(declared["model"])
        reduced = tokenizers.Tokenizer.from_str(json.dumps(_without(declared, {*removed} - {unknown})))
    except Exception:  # exceptions of the library; a tokenizer may have parts written in Python, which have no JSON
        return {}
    added = library.get_added_tokens_decoder()
    prefix = declared["model"].get("continuing_subword_prefix")
    found = {}
    for id in ids:
        try:
            pieces = reduced.encode(added[id].content, add_special_tokens=False).ids if id in added else None
            pieces = _split(reduced, library.id_to_token(id), prefix) if pieces is None else pieces
        except Exception:  # the library's exception for a text with unknown parts
            continue
        if pieces and all(piece != unknown and piece < len(allowed) and allowed[piece] for piece in pieces):
            found[id] = pieces
    return found


def _unknown_id(model: dict[str, Any]) -> int | None:
    if model["type"] == "Unigram":
        return model.get("unk_id")
    return model["vocab"].get(model.get("unk_token"))


def _without(declared: dict[str, Any], removed: set[int]) -> dict[str, Any]:
    """Return the JSON of a tokenizer in which the removed tokens have names that no text contains. All ids stay."""
    model = declared["model"]
    for token in declared["added_tokens"]:
        if token["id"] in removed:
            token["content"] = PLACEHOLDER.format(token["id"])
    if model["type"] == "Unigram":
        for id in removed & {*range(len(model["vocab"]))}:
            model["vocab"][id][0] = PLACEHOLDER.format(id)
        return declared
    gone = {token for token, id in model["vocab"].items() if id in removed}
    model["vocab"] = {PLACEHOLDER.format(id) if token in gone else token: id for token, id in model["vocab"].items()}
    if model["type"] == "BPE":
        prefix = model.get("continuing_subword_prefix") or ""
        pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
        model["merges"] = [
            [left, right] for left, right in pairs if not gone & {left, right, left + right.removeprefix(prefix)}
        ]
    return declared


def _split(reduced: "tokenizers.Tokenizer", token: str | None, prefix: str | None) -> list[int]:
    """Return the ids of a token's string, split by the model alone, or [] if a part of it is unknown."""
    if token and prefix and token.startswith(prefix):
        for start in STARTS:
            pieces = reduced.model.tokenize(start + token.removeprefix(prefix))
            if pieces[0].value == start:
                return [piece.id for piece in pieces[1:]]
        return []
    pieces = reduced.model.tokenize(token) if token else []
    end = 0  # in bytes; a model without an unknown token skips what it does not know
    for piece in pieces:
        if piece.offsets[0] > end:
            return []
        end = max(end, piece.offsets[1])
    return [piece.id for piece in pieces] if token and end == len(token.encode()) else []


# Training of the new rows of a causal model on a text. All other numbers of the model stay.


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
