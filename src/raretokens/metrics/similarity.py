"""Compare the similarity of embeddings with human scores of word pairs and with word alignments (AlignSim)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.stats import spearmanr

from raretokens.metrics.rows import BLOCK, members, unit
from raretokens.vocabulary import GROUP_NAMES, UNK

SETS = ("men", "ws353", "rg65", "rw")
Pair = tuple[str, str, float]
EncodeWord = Callable[[str], Sequence[int]]  # word -> ids of its tokens


def read_pairs(path: Path) -> list[Pair]:
    """Read (word, word, human score) from a tab-separated file without a header."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [(first, second, float(score)) for first, second, score in rows]


def whole_words(rows: Mapping[str, int]) -> EncodeWord:
    """Return the encoding of words by a vocabulary that has one row per word; rows: word -> id."""
    return lambda word: [rows.get(word, UNK)]


def word_similarity(
    embedding: np.ndarray, sets: Mapping[str, Sequence[Pair]], encode: EncodeWord, *, form: str
) -> tuple[dict[str, float | None], str]:
    """Spearman's correlation x 100 between cosine and human score, over all pairs of each set (AGG table 5).

    The vector of a word is the mean of the raw rows of its tokens, with <unk> for unknown tokens. The value is None where
    the rank correlation is undefined. form describes the encoding of words in the signature.
    """
    value = {name: _spearman(embedding, pairs, encode) for name, pairs in sets.items()}
    return value, f"x:100|corr:spearman|word:mean-of-pieces|form:{form}|pairs:all"


def word_similarity_by_tokens(
    embedding: np.ndarray, sets: Mapping[str, Sequence[Pair]], encode: EncodeWord, *, form: str
) -> dict[str, tuple[dict[str, float | None], str]]:
    """Return word_similarity() of both parts of split_by_tokens(), and the number of pairs in each part."""
    metrics = {}
    for part, pairs in split_by_tokens(sets, encode).items():
        value, signature = word_similarity(embedding, pairs, encode, form=form)
        of = part.replace("_", "-")
        metrics[f"spearman_{part}"] = value, signature.replace("pairs:all", f"pairs:{of}")
        metrics[f"pairs_{part}"] = {name: len(kept) for name, kept in pairs.items()}, f"of:{of}|form:{form}"
    return metrics


def split_by_tokens(sets: Mapping[str, Sequence[Pair]], encode: EncodeWord) -> dict[str, dict[str, list[Pair]]]:
    """Split the pairs of each set into those whose words are both one known token, and all others."""
    words = sorted({word for pairs in sets.values() for word in _words(pairs)})
    is_whole = {word: len(ids := encode(word)) == 1 and UNK not in ids for word in words}
    return {
        part: {name: [pair for pair in pairs if (is_whole[pair[0]] and is_whole[pair[1]]) == one]
               for name, pairs in sets.items()}
        for part, one in (("one_token", True), ("not_one_token", False))
    }  # fmt: skip


def coverage(
    sets: Mapping[str, Sequence[Pair]], encode: EncodeWord, *, form: str = "leading-space"
) -> tuple[dict[str, float], str]:
    """Share of the distinct words of each set that have no unknown token."""
    value = {name: float(np.mean([UNK not in encode(word) for word in _words(pairs)])) for name, pairs in sets.items()}
    return value, f"unit:distinct-word|form:{form}"


def _words(pairs: Sequence[Pair]) -> list[str]:
    return sorted({word for pair in pairs for word in pair[:2]})


def cosines(embedding: np.ndarray, pairs: Sequence[Pair], encode: EncodeWord) -> np.ndarray:
    """Return the cosine of each pair, rounded so that ties are the same on every machine."""
    words = _words(pairs)
    rows = {word: row for row, word in enumerate(words)}
    vectors = unit(
        np.stack([np.asarray(embedding[list(encode(word))], dtype=np.float64).mean(axis=0) for word in words])
    )
    return np.round([vectors[rows[first]] @ vectors[rows[second]] for first, second, _ in pairs], 12)


def human_scores(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([score for *_, score in pairs])


def _spearman(embedding: np.ndarray, pairs: Sequence[Pair], encode: EncodeWord) -> float | None:
    if len(pairs) < 2:
        return None
    cosine, human = cosines(embedding, pairs, encode), human_scores(pairs)
    if np.ptp(cosine) == 0 or np.ptp(human) == 0:
        return None
    return float(100 * spearmanr(cosine, human).statistic)


TAU = 10.0  # tau, given below AGPS equation 16


def alignsim(
    embedding: np.ndarray,
    links: sparse.sparray | sparse.spmatrix,
    groups: np.ndarray,
    *,
    tau: float = TAU,
    rows: int = BLOCK // 4,
) -> tuple[dict[str, float | None], str]:
    """AlignSim: mean of cos(a(i), b(i)) over the types i of a group (AGPS equations 16 and 17).

    a(i)_j is the share of i's links that go to j, from A = L + L^T. b(i) is the softmax over j of tau cos(w_i, w_j). Both
    exclude j = i, because its cosine of 1 would outweigh the others. Types without a link are left out and counted in the
    signature. <pad> and fillers are excluded.

    Args:
        links: L, N x N, number of links between source type i and target type j.
        rows: Types per block. Memory is rows x N, because the full cosine matrix is never built.
    Returns:
        group -> mean, None where no type of the group has a link.
    """
    kept = members(groups)["total"]
    linked = _symmetric(links, kept)
    vectors = unit(np.asarray(embedding[kept], dtype=np.float64))
    types = np.flatnonzero(np.diff(linked.indptr))
    score = np.empty(len(types))
    for start in range(0, len(types), rows):
        part = types[start : start + rows]
        score[start : start + rows] = _cosines(linked[part], _similarity(vectors, part, tau))
    group = groups[kept[types]]
    value = {"total": _mean(score)} | {name: _mean(score[group == code]) for name, code in GROUP_NAMES.items()}
    return value, f"tau:{tau:g}|self:dropped|types:{len(types)}|without-link:{len(kept) - len(types)}"


def _symmetric(links: sparse.sparray | sparse.spmatrix, kept: np.ndarray) -> sparse.csr_array:
    """Return A = L + L^T on the kept types, without its diagonal and without explicit zeros."""
    one_way = sparse.csr_array(links, dtype=np.float64)[kept][:, kept]
    both = sparse.csr_array(one_way + one_way.T)
    both = sparse.csr_array(both - sparse.diags_array(both.diagonal()))
    both.eliminate_zeros()
    return both


def _similarity(vectors: np.ndarray, part: np.ndarray, tau: float) -> np.ndarray:
    """Return exp(tau (cos - 1)) for the types `part` (rows x types), which is the softmax up to a scale per row."""
    weights = np.exp(tau * (vectors[part] @ vectors.T - 1.0))
    weights[np.arange(len(part)), part] = 0.0
    return weights


def _cosines(linked: sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return the cosine of each sparse row with its dense row. Rows need not sum to 1, because a cosine ignores scale."""
    row = np.repeat(np.arange(len(weights)), np.diff(linked.indptr))
    product = np.bincount(row, linked.data * weights[row, linked.indices], minlength=len(weights))
    lengths = np.sqrt(np.bincount(row, linked.data**2, minlength=len(weights))) * np.linalg.norm(weights, axis=1)
    return product / lengths


def _mean(score: np.ndarray) -> float | None:
    return float(score.mean()) if len(score) else None
