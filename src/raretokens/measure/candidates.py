"""Candidates for under-trained rows, each with a reason that is found from its token and the tokenizer."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from raretokens.measure.model import Model
from raretokens.measure.notes import Notes
from raretokens.measure.row_order import Arrangement
from raretokens.measure.tokenizers import ModelTokenizer
from raretokens.metrics.score_files import Metrics
from raretokens.metrics.undertrained import INDICATORS, find_undertrained
from raretokens.vocabulary import SPECIALS

MAX_CANDIDATES = 1000  # per embedding in the list
CONTEXTS = ("", " ", "a", "«", "\n", "qz")  # prefixes of a token's text, to test whether the tokenizer can produce the token
REPLACEMENT = "\ufffd"
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # byte fallback of SentencePiece
# Such as <extra_id_0>, <|fr|>, [unused7]
RESERVED = re.compile(r"<[|/]?[A-Za-z][\w ./:-]*\|?>|\[[A-Za-z_]+\d*\]|madeupword\d+")
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
    places = found.candidates[:MAX_CANDIDATES]
    indices = found.ids[places]
    tokenizer = None if arrangement.is_foreign else model.tokenizer
    reached: dict[int, bool | None] = {}
    if tokenizer is not None:
        named = [index for index in indices if names[index]]
        occurring = [counts is not None and counts[index] > 0 for index in named]
        reached = dict(zip(named, can_reach(tokenizer, rows[named].tolist(), occurring), strict=True))
    has_tokens = any(names[len(SPECIALS) :])
    listed = [
        {
            "id": int(rows[index]),
            "token": names[index],
            "count": None if counts is None else int(counts[index]),
            "false-discovery rate": float(found.q[place]),
            "indicator": INDICATORS[found.indicator[place]],
            "distance": None if found.distance is None else float(found.distance[place]),
            "length": float(found.length[place]),
            "reachable": reached.get(index),
            "explanation": explain(tokenizer, int(rows[index]), names[index], reached.get(index)) if has_tokens else None,
        }
        for place, index in zip(places, indices, strict=True)
    ]
    if sum(one["explanation"] == "none found" for one in listed) > len(listed) / 2:
        notes.append(
            "under-trained rows: most candidates look like ordinary tokens; they may be rare or alike rather than untrained"
        )
    values: dict[str, Any] = {"candidates": len(found.candidates), "share": len(found.candidates) / len(found.ids)}
    if found.distance is not None:
        by_direction = found.distance[found.candidates[found.indicator[found.candidates] == 0]]
        if len(by_direction):
            values |= {"below": float(by_direction.max()), "median": float(np.median(found.distance))}
    return {"undertrained": (values, found.signature)}, listed


def can_reach(tokenizer: ModelTokenizer, ids: Sequence[int], occurring: Sequence[bool]) -> list[bool | None]:
    """Return whether some text contains each token: the counted text, or the token's own text alone or after other text.

    None for a token that is not complete UTF-8, because its own text cannot show it.
    """
    texts = [tokenizer.text(id) for id in ids]
    encoded = [tokenizer.encode([before + text for text in texts]) for before in CONTEXTS]
    reached = [any(id in rows[index] for rows in encoded) for index, id in enumerate(ids)]
    return [
        True if is_reached or occurs else None if REPLACEMENT in text else False
        for is_reached, occurs, text in zip(reached, occurring, texts, strict=True)
    ]


def explain(tokenizer: ModelTokenizer | None, id: int, token: str | None, is_reached: bool | None) -> str:
    """Return the reason for a row of the file, or "none found" for a token that looks like any other.

    `is_reached` is what can_reach() returns for the row.
    """
    if not token:
        return "no token"
    text = token if tokenizer is None else tokenizer.text(id)
    if BYTE.fullmatch(token):
        return "byte fallback"
    if REPLACEMENT in text:
        return "part of a character"
    if RESERVED.fullmatch(token.strip()):
        return "reserved"
    if is_reached is False:
        return "never produced"
    return "data artefact" if ARTEFACT.search(text.strip(" ▁Ġ")) else "none found"
