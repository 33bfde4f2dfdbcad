"""The rows to re-initialise: found by the search for under-trained rows, or named by the user."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from raretokens.errors import UserError
from raretokens.measure.model import Model, read_settings
from raretokens.measure.row_order import OrderedRows, arrange_rows
from raretokens.measure.stored_matrix import StoredMatrix
from raretokens.measure.tokenizers import SentencePieceTokenizer, library_tokenizer
from raretokens.metrics.undertrained import INDICATORS, MIN_ROWS, RATE, find_undertrained

IDS = re.compile(r"\d{1,12}(-\d{1,12})?")
ALLOWED = "should be ids and ranges such as 5,17,100-120, or @FILE with them"
MIN_TRAINED = 2  # rows that a covariance needs


class Selection(NamedTuple):
    """The rows of one embedding matrix to re-initialise."""

    role: str
    stored: StoredMatrix
    rows: np.ndarray  # ids to take, rising
    q: np.ndarray | None  # false-discovery rate at which each row is found; None: the user named the rows
    indicator: list[str] | None  # of each row, from INDICATORS
    trained: np.ndarray  # mask of all rows: those that new rows are made from
    untrained: np.ndarray  # ids of taken rows and of all other candidates
    left_out: dict[str, int]  # reason -> number of candidates that are not taken
    broken: np.ndarray  # ids of rows with NaN or Inf


def parse_rows(text: str) -> list[tuple[int, int]]:
    """Return the ranges (first and last id) of `5,17,100-120`, or of a file with such ids after `@`.

    In a file, white space separates ids as well.

    Raises:
        UserError: if the text contains anything else, or no id.
    """
    where, content = "--rows", text
    if text.startswith("@"):
        path = Path(text[1:])
        if not path.is_file():
            raise UserError(f"--rows: {path}: no such file")
        try:
            where, content = f"--rows: {path}", path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UserError(f"--rows: {path}: not UTF-8") from None
    ranges = []
    for part in re.split(r"[\s,]+", content.strip(" \t\r\n,")):
        first, _, last = part.partition("-")
        if not IDS.fullmatch(part) or int(last or first) < int(first):
            raise UserError(f"{where}: {part[:40] or 'nothing'} is not allowed: {ALLOWED}")
        ranges.append((int(first), int(last or first)))
    return ranges


def select_rows(model: Model, role: str, named: list[tuple[int, int]] | None, fdr: float) -> Selection:
    """Select the rows of the embedding matrix with this role.

    Args:
        named: ranges of ids to take. None: take the candidates at the false-discovery rate `fdr` that have a token and are no
            special tokens.

    Raises:
        UserError: if a named id has no row, there are too few rows to search, or too few trained rows remain.
    """
    stored, arrangement = model.embeddings[role], arrange_rows(model, role)
    size = stored.shape[0]
    ordered = arrangement.rows
    found = find_undertrained(OrderedRows(stored, ordered), np.flatnonzero(ordered >= 0))
    if found is None and named is None:
        raise UserError(
            f"{stored.path}: {stored.name} has fewer than {MIN_ROWS} different rows to search; name rows by --rows"
        )
    q, indicator = np.ones(size), np.zeros(size, np.int64)
    if found is not None:
        q[ordered[found.ids]], indicator[ordered[found.ids]] = found.q, found.indicator
    candidates = q <= fdr
    is_special = np.zeros(size, bool)
    is_special[[id for id in special_rows(model) if id < size]] = True
    has_token = np.array([not model.tokens or id in model.tokens for id in range(size)])
    left_out = {}
    if named is None:
        taken = candidates & has_token & ~is_special
        counts = {
            "special tokens": candidates & is_special,
            "rows without a token": candidates & ~has_token & ~is_special,
        }
        left_out = {reason: int(which.sum()) for reason, which in counts.items() if which.any()}
    else:
        taken = _named_rows(named, stored)
    trained = has_token & ~is_special & ~taken & ~candidates & (q > RATE)
    trained[arrangement.excluded] = False
    if taken.any() and trained.sum() < MIN_TRAINED:
        raise UserError(
            f"{stored.path}: {stored.name}: {trained.sum()} trained rows remain; at least {MIN_TRAINED} are needed"
        )
    rows = np.flatnonzero(taken)
    return Selection(
        role,
        stored,
        rows,
        None if named is not None else q[rows],
        None if named is not None else [INDICATORS[place] for place in indicator[rows]],
        trained,
        np.flatnonzero(taken | candidates | (q <= RATE)),
        left_out,
        arrangement.excluded,
    )


def _named_rows(named: list[tuple[int, int]], stored: StoredMatrix) -> np.ndarray:
    taken = np.zeros(stored.shape[0], bool)
    for first, last in named:
        if last >= len(taken):
            raise UserError(f"--rows: {last} is not allowed: {stored.name} has rows 0..{len(taken) - 1}")
        taken[first : last + 1] = True
    return taken


# Special tokens.


def special_rows(model: Model) -> set[int]:
    """Return the ids of all special tokens that the configuration or the tokenizer of a model folder declares."""
    ids = {id for id in model.special_ids if id is not None}
    for name in ("config.json", "generation_config.json"):
        ids |= set(_declared_ids(read_settings(model.path / name, [])))
    names = set()
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        names |= set(_declared_tokens(read_settings(model.path / name, [])))
    ids |= {id for id, token in model.tokens.items() if token in names}
    if model.tokenizer is not None and (unknown := model.tokenizer.unknown_id) is not None:
        ids.add(unknown)
    if (library := library_tokenizer(model.tokenizer)) is not None:
        ids |= {id for id, token in library.get_added_tokens_decoder().items() if token.special}
    elif isinstance(model.tokenizer, SentencePieceTokenizer):
        pieces = model.tokenizer.model
        special = (id for id in range(pieces.get_piece_size()) if pieces.is_control(id) or pieces.is_unknown(id))
        tokens = {pieces.id_to_piece(id) for id in special}
        ids |= {id for token, id in model.tokenizer.ids.items() if token in tokens}
    return {id for id in ids if id >= 0}


def _declared_ids(settings: dict[str, Any]) -> Iterator[int]:
    """Yield the values of keys such as eos_token_id, which may be lists, also of the text part of a model."""
    text = settings.get("text_config")
    for key, value in [*settings.items(), *(text.items() if isinstance(text, dict) else ())]:
        if key.endswith("_token_id"):
            for id in value if isinstance(value, list) else [value]:
                if isinstance(id, int) and not isinstance(id, bool):
                    yield id


def _declared_tokens(settings: dict[str, Any]) -> Iterator[str]:
    """Yield the values of keys such as eos_token, which are texts, objects with the text, or lists or objects of those."""
    for key, value in settings.items():
        if not key.endswith(("_token", "special_tokens", "added_tokens_decoder")):
            continue
        is_one = not isinstance(value, list | dict) or "content" in value
        several = value.values() if isinstance(value, dict) else value
        for token in [value] if is_one else several:
            if isinstance(token, dict):
                is_special = token.get("special", True) or not key.endswith("decoder")
                token = token.get("content") if is_special else None
            if isinstance(token, str):
                yield token
