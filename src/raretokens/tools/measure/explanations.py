"""Reasons why the row of a token may be under-trained, found from the token and the tokenizer."""

import re
from collections.abc import Sequence

from raretokens.tools.measure.tokenizers import REPLACEMENT, Tokenizer

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
