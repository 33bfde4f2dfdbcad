"""Word similarity: does the cosine of two words rank pairs as people do?"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from raretokens.metrics.rows import unit
from raretokens.subword.vocabulary import UNK

SETS = ("men", "ws353", "rg65", "rw")
Pair = tuple[str, str, float]
Pieces = Callable[[str], Sequence[int]]  # word -> ids of its pieces


def read_pairs(path: Path) -> list[Pair]:
    """Word, word and human score from a file of three columns separated by tabs, without a header."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [(first, second, float(score)) for first, second, score in rows]


def word_similarity(
    table: np.ndarray, sets: Mapping[str, Sequence[Pair]], pieces: Pieces, *, form: str
) -> tuple[dict[str, float | None], str]:
    """Spearman's correlation x 100 between cosine and human score, on all pairs of each set (AGG table 5).

    The vector of a word is the mean of the raw rows of its pieces; an unknown piece counts as the row of <unk>. form
    says in the signature how the words were encoded. None where a rank correlation does not exist (all values equal).
    """
    value = {name: _spearman(table, pairs, pieces) for name, pairs in sets.items()}
    return value, f"x:100|corr:spearman|word:mean-of-pieces|form:{form}|pairs:all"


def coverage(
    sets: Mapping[str, Sequence[Pair]], pieces: Pieces, *, form: str = "leading-space"
) -> tuple[dict[str, float], str]:
    """Share of the distinct words of each set that have no unknown piece."""
    return {name: _covered(pairs, pieces) for name, pairs in sets.items()}, f"unit:distinct-word|form:{form}"


def _words(pairs: Sequence[Pair]) -> list[str]:
    return sorted({word for pair in pairs for word in pair[:2]})


def _covered(pairs: Sequence[Pair], pieces: Pieces) -> float:
    return float(np.mean([UNK not in pieces(word) for word in _words(pairs)]))


def cosines(table: np.ndarray, pairs: Sequence[Pair], pieces: Pieces) -> np.ndarray:
    """Cosine of each pair, rounded, so that cosines equal but for the last bits are ties on every machine."""
    words = _words(pairs)
    place = {word: row for row, word in enumerate(words)}
    vectors = unit(np.stack([np.asarray(table[list(pieces(word))], dtype=np.float64).mean(axis=0) for word in words]))
    return np.round([vectors[place[first]] @ vectors[place[second]] for first, second, _ in pairs], 12)


def scores(pairs: Sequence[Pair]) -> np.ndarray:
    """What people said of each pair."""
    return np.array([score for *_, score in pairs])


def _spearman(table: np.ndarray, pairs: Sequence[Pair], pieces: Pieces) -> float | None:
    cosine, human = cosines(table, pairs, pieces), scores(pairs)
    if len(pairs) < 2 or np.ptp(cosine) == 0 or np.ptp(human) == 0:
        return None
    return float(100 * spearmanr(cosine, human).statistic)
