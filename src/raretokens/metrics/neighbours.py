"""Measure the neighbours of single tokens in the embedding matrix, by cosine."""

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

import numpy as np
from scipy.stats import spearmanr

from raretokens.metrics.frequency import POPULAR, popular_types
from raretokens.metrics.rows import blocks, evenly, members, unit
from raretokens.vocabulary import GROUP_NAMES, SPACE, SPECIALS, Vocabulary

CURVE = 600  # largest number of points of a similarity curve
BEGINNING = 4  # characters that same_beginning() compares
QUERIES = 100  # queries per batch, which bounds the memory for cosines
Near = list[tuple[str, float, str]]  # token, cosine, group name


def neighbours(
    embedding: np.ndarray, tokens: Sequence[str], groups: np.ndarray, queries: Sequence[str], *, top: int = 5
) -> tuple[dict[str, Near], str]:
    """Return the `top` tokens of highest cosine to each query, nearest first (AGG tables 12 and 13).

    Ties go to the more frequent token. The query itself, specials and fillers are never neighbours. Each query is
    looked up first with the space mark, then without. A query that is not a single token gets an empty list, and the
    signature names it. Returned tokens keep their space mark.
    """
    candidates = _candidates(groups)
    rows = _rows(tokens, candidates, queries)
    known = [query for query, row in rows.items() if row is not None]
    cosines = _cosines(embedding, candidates[[rows[query] for query in known]], candidates) if known else ()
    near: dict[str, Near] = {query: [] for query in rows}
    for query, cosine in zip(known, cosines, strict=True):
        for row in _nearest(cosine, rows[query])[:top]:
            i = candidates[row]
            near[query].append((tokens[i], float(cosine[row]), _group(groups, i)))
    absent = ",".join(query for query in rows if query not in known)
    return near, f"similarity:cosine|top:{top}" + (f"|not-one-piece:{absent}" if absent else "")


def named_ranks(
    embedding: np.ndarray, tokens: Sequence[str], groups: np.ndarray, named: Mapping[str, Sequence[str]]
) -> dict[str, list[tuple[str, int | None]]]:
    """Return ranks (from 1) of named words among a query's neighbours (FRAGE tables 11 and 12).

    The rank is None where the query or the word is not a single token.
    """
    candidates = _candidates(groups)
    ranks = {}
    for query, words in named.items():
        rows = _rows(tokens, candidates, [query, *words])
        if rows[query] is None:
            ranks[query] = [(word, None) for word in words]
            continue
        cosine = _cosines(embedding, candidates[[rows[query]]], candidates)[0]
        order = _nearest(cosine, rows[query]).tolist()
        ranks[query] = [(word, None if rows[word] is None else order.index(rows[word]) + 1) for word in words]
    return ranks


def rare_among_neighbours_of_rare(
    embedding: np.ndarray,
    counts: np.ndarray,
    groups: np.ndarray,
    *,
    popular: float = POPULAR,
    top: int = 10,
    queries: int = 500,
) -> tuple[dict[str, float | None], str]:
    """Return how many neighbours of rare types are rare (FRAGE sections 1 and 3). Types that are not popular are rare.

    Args:
        counts: N, as in popular_types().
        popular: Share of the used types that are popular.
        top: Number of nearest neighbours per query.
        queries: Largest number of queries, which are evenly spaced rare types.
    Returns:
        `rare`: share of rare types among the `top` neighbours of all queries. `nearest`: share of queries whose nearest
        neighbour is rare. `chance`: share of rare types among all other types, 0.8 with the default `popular`. `rare`
        and `nearest` would equal `chance` if the matrix did not encode frequency. The query itself, specials and
        fillers are never neighbours. All values are None without a rare type, or where it is the only type.
    """
    candidates = _candidates(groups)
    is_rare = ~popular_types(counts, groups, popular)[candidates]
    own, others = evenly(np.flatnonzero(is_rare), queries), len(candidates) - 1
    signature = f"similarity:cosine|top:{top}|popular:{popular:g}|queries:{len(own)}"
    if not len(own) or not others:
        return {"rare": None, "nearest": None, "chance": None}, signature
    near = [
        is_rare[_nearest(cosine, row)[:top]]
        for part in np.array_split(own, -(-len(own) // QUERIES))
        for row, cosine in zip(part, _cosines(embedding, candidates[part], candidates), strict=True)
    ]
    value = {
        "rare": float(np.mean(near)),
        "nearest": float(np.mean([listed[0] for listed in near])),
        "chance": float((is_rare.sum() - 1) / others),
    }
    return value, signature


def rank_correlation(
    embedding: np.ndarray, vocabulary: Vocabulary, groups: np.ndarray, queries: Sequence[str]
) -> tuple[float | None, str]:
    """Spearman's correlation, -1 to 1, between frequency rank and cosine with the query (AGPS figures 5 to 7).

    Tokens are ranked by falling count as targets, without the query, specials and fillers. The value is the mean over
    the queries that are single tokens, or None without such a query.
    """
    candidates, found = _candidates(groups), []
    counts = vocabulary.target_counts[candidates]
    for row in _rows(vocabulary.tokens, candidates, queries).values():
        if row is not None:
            others = np.arange(len(candidates)) != row
            cosine = _cosines(embedding, candidates[[row]], candidates)[0]
            found.append(-spearmanr(counts[others], cosine[others]).statistic)
    return (float(np.mean(found)) if found else None), f"corr:spearman|queries:{len(found)}"


def same_beginning(near: Mapping[str, Near]) -> tuple[float | None, str]:
    """Share of neighbours that start with the same BEGINNING characters as their query, ignoring case and space marks."""
    pairs = [(query, token) for query, listed in near.items() for token, _, _ in listed]
    beginnings = [[text.removeprefix(SPACE).removesuffix("@@").lower()[:BEGINNING] for text in pair] for pair in pairs]
    alike = [len(of_token) == BEGINNING and of_token == of_query for of_query, of_token in beginnings]
    return (float(np.mean(alike)) if alike else None), f"characters:{BEGINNING}|case:folded"


def similarity_curve(
    embedding: np.ndarray, vocabulary: Vocabulary, groups: np.ndarray, query: str
) -> list[tuple[int, float, str]]:
    """Return (frequency rank, cosine with the query, group) of tokens, by falling count as targets (AGPS figures 5 to 7).

    The curve is thinned evenly to at most CURVE points. It excludes the query, specials and fillers. It is empty where
    the query is not a single token.
    """
    candidates = _candidates(groups)
    row = _rows(vocabulary.tokens, candidates, [query])[query]
    if row is None:
        return []
    cosine = _cosines(embedding, candidates[[row]], candidates)[0]
    order = np.argsort(-vocabulary.target_counts[candidates], kind="stable")
    order = order[order != row]
    ranks = evenly(np.arange(len(order)), CURVE)
    return [
        (int(rank) + 1, float(cosine[i]), _group(groups, candidates[i]))
        for rank, i in zip(ranks, order[ranks], strict=True)
    ]


def _candidates(groups: np.ndarray) -> np.ndarray:
    candidates = members(groups)["total"]
    return candidates[candidates >= len(SPECIALS)]


def _rows(tokens: Sequence[str], candidates: np.ndarray, queries: Sequence[str]) -> dict[str, int | None]:
    """Return query -> position among the candidates, preferring the form with a space mark; None where neither is a token."""
    positions = {tokens[i]: row for row, i in enumerate(candidates)}
    return {query: positions.get(SPACE + query, positions.get(query)) for query in queries}


def _nearest(cosine: np.ndarray, own: int) -> np.ndarray:
    """Return candidate positions by falling cosine, without the query's `own`. Ties go to the more frequent token."""
    order = np.argsort(-cosine, kind="stable")
    return order[order != own]


def _group(groups: np.ndarray, i: int) -> str:
    return next(name for name, code in GROUP_NAMES.items() if code == groups[i])


def _cosines(embedding: np.ndarray, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return cosines, queries x candidates, rounded so that ties are the same on every machine."""
    vectors = unit(np.asarray(embedding[queries], dtype=np.float64))
    return np.round(np.concatenate([vectors @ unit(block).T for block in blocks(embedding, candidates)], axis=1), 12)


def mean_ranks(
    ranks: Mapping[str, Sequence[tuple[str, int | None]]], vocabulary: Vocabulary, groups: np.ndarray
) -> tuple[dict[str, float | None], str]:
    """Geometric mean of the known ranks of all, popular and rare queries; None for a part without a known rank.

    ranks: As returned by named_ranks().
    """
    is_popular = popular_types(vocabulary.counts, groups)
    popular = {vocabulary.tokens[i].removeprefix(SPACE) for i in np.flatnonzero(is_popular)}
    by_query = {query: [rank for _, rank in listed if rank is not None] for query, listed in ranks.items()}
    parts = {
        "total": list(by_query),
        "popular": [query for query in by_query if query in popular],
        "rare": [query for query in by_query if query not in popular],
    }
    known = {name: [rank for query in queries for rank in by_query[query]] for name, queries in parts.items()}
    return {name: geometric_mean(of_part) if of_part else None for name, of_part in known.items()}, "mean:geometric"
