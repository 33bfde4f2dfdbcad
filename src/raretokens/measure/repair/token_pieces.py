"""Split a token into other subword tokens: those that the tokenizer would give if it lacked the token."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import tokenizers

from raretokens.measure.tokenizers import FastTokenizer, ModelTokenizer, TransformersTokenizer

PLACEHOLDER = "\U000f0000removed {}"  # name of a removed token; no text contains the first character
STARTS = "abcdefghijklmnopqrstuvwxyz0123456789"  # begin a word, so that a token within words can be split


def library_tokenizer(tokenizer: ModelTokenizer | None) -> "tokenizers.Tokenizer | None":
    """Return the tokenizer of the library tokenizers behind a tokenizer, or None if there is none."""
    if isinstance(tokenizer, FastTokenizer):
        return tokenizer.model
    if isinstance(tokenizer, TransformersTokenizer):
        return getattr(tokenizer.model, "backend_tokenizer", None)
    return None


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
