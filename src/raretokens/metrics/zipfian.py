"""Frequency in the table: length against log frequency, and whitening under the distribution of the text."""

import numpy as np

from raretokens.metrics.cosine import mean_cosine
from raretokens.metrics.isotropy import isotropy, log_partitions
from raretokens.metrics.rows import blocks, evenly, members
from raretokens.subword.vocabulary import FREQ

LIMIT = 65_536  # rows of the whitened table that are looked at
FLAT = 1e-7  # singular values below this share of the largest are noise: their directions are left out


def lengths(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Euclidean length of each of the rows."""
    return np.concatenate([np.linalg.norm(block, axis=1) for block in blocks(table, ids)] or [np.empty(0)])


def norm_by_frequency(table: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> tuple[dict[str, float | None], str]:
    """Mean length of a row by group, and Pearson's correlation of length with log frequency over the types that occur."""
    value: dict[str, float | None] = {}
    for name, ids in members(groups).items():
        value[name] = float(lengths(table, ids).mean()) if len(ids) else None
    seen = members(groups)["total"]
    seen = seen[counts[seen] > 0]
    length, frequency = lengths(table, seen), np.log(counts[seen])
    varies = len(seen) > 2 and np.ptp(length) > 0 and np.ptp(frequency) > 0
    value["pearson"] = float(np.corrcoef(length, frequency)[0, 1]) if varies else None
    return value, f"norm:2|corr:pearson-log-count|types-that-occur:{len(seen)}|rows:no-pad-no-fillers"


def whitening(table: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (d) and matrix (d x r) that make W white under the text's distribution: W' = (W - mean) matrix.

    Yokoi et al. (2024): mean = sum_k p_k w_k, rows sqrt(p_k) (w_k - mean) = U S V^T, matrix = V S^-1. p_k are frequencies
    of the types that occur; directions in which these do not differ (r < d) are left out.
    """
    ids = members(groups)["total"]
    ids = ids[counts[ids] > 0]
    share = counts[ids] / counts[ids].sum()
    width = table.shape[1]
    mean, gram, start = np.zeros(width), np.zeros((width, width)), 0
    for block in blocks(table, ids):
        mean += share[start : start + len(block)] @ block
        start += len(block)
    start = 0
    for block in blocks(table, ids):
        centred = (block - mean) * np.sqrt(share[start : start + len(block), None])
        gram += centred.T @ centred
        start += len(block)
    values, vectors = np.linalg.eigh(gram)
    kept = values > max(FLAT**2 * values[-1], 0.0)
    return mean, vectors[:, kept] / np.sqrt(values[kept])


def whitened(table: np.ndarray, counts: np.ndarray, groups: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, str]:
    """The rows `ids`, whitened and scaled to the mean squared length that they had (I(W) depends on the scale)."""
    mean, matrix = whitening(table, counts, groups)
    before, parts = 0.0, []
    for block in blocks(table, ids):
        before += float(np.sum(block * block))
        parts.append((block - mean) @ matrix)
    rows = np.concatenate(parts)
    scale = np.sqrt(before / np.sum(rows * rows)) if rows.any() else 1.0
    return rows * scale, f"zipfian-whitening|directions:{matrix.shape[1]}|scale:as-before"


def zipfian_whitening(table: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> dict[str, tuple[float | None, str]]:
    """I(W) and S(w) of the table after Zipfian whitening; nothing where fewer than two types occur."""
    every = members(groups)["total"]
    if np.count_nonzero(counts[every]) < 2:
        return {}
    ids = evenly(every, LIMIT)
    rows, how = whitened(table, counts, groups, ids)
    if not rows.size:  # all types that occur have the same row
        return {}
    how += f"|evenly-spaced:{LIMIT}" if len(ids) < len(every) else ""
    # <pad> is left out already, so its place goes to a row of zeros that no group has.
    rows = np.insert(rows, 1, 0.0, axis=0)
    alike = np.full(len(rows), FREQ, np.int8)
    partition, by_isotropy = isotropy(log_partitions(rows, alike, ["total"]))
    cosine, by_cosine = mean_cosine(rows, alike)
    return {
        "zipfian.isotropy": (partition["total"], f"{how}|{by_isotropy}"),
        "zipfian.mean_cosine": (cosine, f"{how}|{by_cosine}"),
    }
