"""Candidates for under-trained rows, each with a reason that is found from its token and the tokenizer."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from raretokens.evaluation.metrics.undertrained import INDICATORS, find_undertrained
from raretokens.evaluation.score_files import Metrics
from raretokens.tokenization.vocabulary import SPECIALS
from raretokens.tools.measure.model import Model
from raretokens.tools.measure.notes import Notes
from raretokens.tools.measure.row_order import Arrangement
from raretokens.tools.measure.tokenizers import REPLACEMENT, Tokenizer, can_reach

MAX_CANDIDATES = 1000  # per embedding in the list
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # byte fallback of SentencePiece
RESERVED = re.compile(
    r"<[|/]?[A-Za-z][\w ./:-]*\|?>|\[[A-Za-z_]+\d*\]|madeupword\d+"
)  # such as [unused7], <extra_id_0>, <|fr|>
ARTEFACT = re.compile(
    r"[a-z][A-Z]"  # identifiers of programs
    r"|(.{1,4})\1{3}"  # repetitions
    r"|^[^\w\s]{4,}$"  # runs of punctuation
    r"|[ÃÂ][\x80-\xbfÃÂ]|\xa0|\ufffd"  # text decoded twice, no-break spaces
    r"|[^\W\d]\d+[^\W\d]|[^\W\d]\d{2,}|\d{2,}[^\W\d]{3,}|\w_\w"  # letters mixed with digits or underscores
    r"|^\S{20,}$"
)


def find_candidates(
    model: Model, matrix: Any, arrangement: Arrangement, notes: Notes
) -> tuple[Metrics, list[dict[str, Any]]]:
    """Return how many rows are candidates for under-trained rows, and a list of them with an explanation of each."""
    rows, counts, names = arrangement.rows, arrangement.counts, arrangement.vocabulary.tokens
    found = find_undertrained(matrix, np.flatnonzero(rows >= 0))
    if found is None:
        return {}, []
    shown = found.candidates[:MAX_CANDIDATES]
    indices = found.ids[shown]
    ids, tokens = [int(row) for row in rows[indices]], [names[index] for index in indices]
    occurring = [None if counts is None else int(counts[index]) for index in indices]
    tokenizer = None if arrangement.is_foreign else model.tokenizer
    reachable: list[bool | None] = [None] * len(ids)
    if tokenizer is not None:
        ranks = [rank for rank, token in enumerate(tokens) if token]
        reached = can_reach(tokenizer, [ids[rank] for rank in ranks], [bool(occurring[rank]) for rank in ranks])
        for rank, is_reached in zip(ranks, reached, strict=True):
            reachable[rank] = is_reached
    reasons = explain(tokenizer, ids, tokens, reachable) if any(names[len(SPECIALS) :]) else [None] * len(ids)
    if reasons.count("none found") > len(reasons) / 2:
        notes.add(
            "under-trained rows: most candidates look like ordinary tokens; they may be rare or alike rather than untrained"
        )
    values: dict[str, Any] = {"candidates": len(found.candidates), "share": len(found.candidates) / len(found.ids)}
    if found.distance is not None:
        by_direction = found.distance[found.candidates[found.indicator[found.candidates] == 0]]
        if len(by_direction):
            values |= {"below": float(by_direction.max()), "median": float(np.median(found.distance))}
    return {"undertrained": (values, found.signature)}, [
        {
            "id": ids[rank],
            "token": tokens[rank],
            "count": occurring[rank],
            "false-discovery rate": float(found.q[candidate]),
            "indicator": INDICATORS[found.indicator[candidate]],
            "distance": None if found.distance is None else float(found.distance[candidate]),
            "length": float(found.length[candidate]),
            "reachable": reachable[rank],
            "explanation": reasons[rank],
        }
        for rank, candidate in enumerate(shown)
    ]


def explain(
    tokenizer: Tokenizer | None, ids: Sequence[int], tokens: Sequence[str | None], reachable: Sequence[bool | None]
) -> list[str]:
    """Return one reason for each row, or "none found" for a token that looks like any other.

    Args:
        tokenizer: the tokenizer, if there is one.
        ids: rows in the file.
        tokens: the tokens of these rows.
        reachable: what can_reach() returns for these rows.
    """
    reasons = []
    for id, token, is_reached in zip(ids, tokens, reachable, strict=True):
        text = token if tokenizer is None or not token else tokenizer.text(id)
        reasons.append(_reason(token, text or "", is_reached))
    return reasons


def _reason(token: str | None, text: str, is_reached: bool | None) -> str:
    if not token:
        return "no token"
    if BYTE.fullmatch(token):
        return "byte fallback"
    if REPLACEMENT in text:
        return "part of a character"
    if RESERVED.fullmatch(token.strip()):
        return "reserved"
    if is_reached is False:
        return "never produced"
    return "data artefact" if ARTEFACT.search(text.strip(" ▁Ġ")) else "none found"
