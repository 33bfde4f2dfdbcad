"""Nearest neighbours of single pieces in the embedding table."""

from collections.abc import Sequence

import numpy as np

from raretokens.metrics.rows import blocks, members, unit
from raretokens.subword.vocabulary import GROUP_NAMES, SPECIALS

SPACE = "\u2581"  # SentencePiece's mark of a piece that begins a word
Found = list[tuple[str, float, str]]  # piece, cosine, group name


def neighbours(
    table: np.ndarray, pieces: Sequence[str], groups: np.ndarray, queries: Sequence[str], *, top: int = 5
) -> tuple[dict[str, Found], str]:
    """The `top` pieces of highest cosine to each query, nearest first (AGG tables 12 and 13).

    Ties go to the more frequent piece. The whole table is searched but the query, specials and fillers. A query is
    looked up with the space mark, then bare; one that is not a piece of the vocabulary gets an empty list, and the
    signature says so. Pieces keep their space mark.
    """
    candidates = members(groups)["total"]
    candidates = candidates[candidates >= len(SPECIALS)]
    place = {pieces[i]: row for row, i in enumerate(candidates)}
    rows = {query: place.get(SPACE + query, place.get(query)) for query in queries}
    known = [query for query, row in rows.items() if row is not None]
    cosines = _cosines(table, candidates[[rows[query] for query in known]], candidates) if known else ()
    found: dict[str, Found] = {query: [] for query in rows}
    for query, cosine in zip(known, cosines, strict=True):
        nearest = [row for row in np.argsort(-cosine, kind="stable")[: top + 1] if row != rows[query]][:top]
        for row in nearest:
            i = candidates[row]
            found[query].append((pieces[i], float(cosine[row]), _group(groups, i)))
    absent = ",".join(query for query in rows if query not in known)
    return found, f"similarity:cosine|top:{top}" + (f"|not-one-piece:{absent}" if absent else "")


def _group(groups: np.ndarray, i: int) -> str:
    return next(name for name, code in GROUP_NAMES.items() if code == groups[i])


def _cosines(table: np.ndarray, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """queries x candidates; rounded, so that ties are ties on every machine."""
    vectors = unit(np.asarray(table[queries], dtype=np.float64))
    return np.round(np.concatenate([vectors @ unit(block).T for block in blocks(table, candidates)], axis=1), 12)
