"""Memory that an alignment takes, in bytes: for plans before there is a text, and to refuse what cannot end.

4.5 million sentence pairs, 250 million tokens, 37,000 types a side and 260 million pairs of types that meet take
0.2 + 0.5 + 1.0 + 0.3 + 4.2 = 6.2 GB, in the order of `memory`. The table grows with about the 0.65th power of the text.
"""

import psutil

from raretokens.errors import UserError

CELL = 8 + 8  # of pairs of types that meet: probability and expected links
PLACE = 2 / 8  # of all pairs of types: a bit, and a rank for 64 of them
PAIR, TOKEN = 120, 2 + 2  # lengths and places; the token file in memory, and the best link of each token
PROGRAM = 0.15e9  # libraries and blocks of positions
SPREAD = 1.5  # mean of m n over the product of the means of m and n: 1.2 to 1.5 in German-English and Bible text


def positions(pairs: float, tokens: float) -> float:
    """Pairs of a source and a target position that are expected; tokens: of both sides."""
    return SPREAD * (tokens / 2) ** 2 / max(pairs, 1)


def cells(pairs: float, tokens: float, types: float) -> float:
    """Pairs of types that are expected to meet: 0.5 to 1.3 times what 16 texts of 3,000 to 300,000 sentence pairs have.

    tokens: of both sides; types: of a side. With x = 0.13 (positions / types^2)^0.75 a share x / (1 + x) of all meets.
    """
    x = 0.13 * (positions(pairs, tokens) / types**2) ** 0.75
    return types**2 * x / (1 + x)


def memory(pairs: float, tokens: float, types: float, meeting: float | None = None) -> dict[str, float]:
    """Peak by what takes it. meeting: pairs of types that meet, None: as expected."""
    table = CELL * (cells(pairs, tokens, types) if meeting is None else meeting)
    return {
        "program": PROGRAM,
        "pairs": float(PAIR * pairs),
        "tokens": float(TOKEN * tokens),
        "types": PLACE * types**2,
        "table": table,
    }


def check(needed: float, what: str) -> None:
    """Raise UserError where `needed` more bytes are not free."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"alignment: {what} take {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free; "
            "align fewer pairs (alignments.<name>.pairs), or on a machine with more"
        )
