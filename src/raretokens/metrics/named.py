"""Ranks of named words among a query's neighbours, put together (FRAGE tables 11 and 12)."""

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

import numpy as np

from raretokens.metrics.popularity import popular_types
from raretokens.subword.vocabulary import SPACE, Vocabulary

Ranks = Mapping[str, Sequence[tuple[str, int | None]]]  # query -> word and its rank from 1, None where it is no piece


def popular_pieces(vocabulary: Vocabulary, groups: np.ndarray) -> set[str]:
    """Popular types, without the mark of a blank."""
    popular = popular_types(vocabulary.counts, groups)
    return {vocabulary.pieces[i].removeprefix(SPACE) for i in np.flatnonzero(popular)}


def mean_ranks(ranks: Ranks, popular: set[str]) -> tuple[dict[str, float | None], str]:
    """Geometric mean of all ranks that there are, and of those of popular and of rare queries; None without one."""
    by_query = {query: [rank for _, rank in listed if rank is not None] for query, listed in ranks.items()}
    parts = {
        "total": list(by_query),
        "popular": [query for query in by_query if query in popular],
        "rare": [query for query in by_query if query not in popular],
    }
    value = {name: _mean([rank for query in queries for rank in by_query[query]]) for name, queries in parts.items()}
    return value, "mean:geometric"


def _mean(ranks: Sequence[int]) -> float | None:
    return geometric_mean(ranks) if ranks else None
