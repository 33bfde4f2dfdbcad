"""Bootstrap of test sets: the same resamples for every run, so that the difference of two runs can be resampled in pairs.

A replicate is the metric on one resampled test set. Replicates are written next to the scores; an interval of the effect of two
runs is made of the differences of their replicates, number by number (Efron and Tibshirani 1993; Koehn 2004 for BLEU).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from raretokens.tokenization.vocabulary import GROUP_NAMES

REPLICATES, SEED = 400, 12345
BLOCKS = 200  # contiguous parts of a text that are resampled as one: neighbouring tokens depend on each other
Replicates = dict[str, np.ndarray]  # name in the metric (a group, a set) -> REPLICATES values, NaN where there is none


def resample(units: int) -> np.ndarray:
    """Return REPLICATES x units: numbers of the units (blocks, sentences, pairs of words) of each resampled test set."""
    return np.random.default_rng(SEED).integers(0, units, (REPLICATES, units))


def perplexity(
    logprob: np.ndarray, targets: np.ndarray, groups: np.ndarray, kept: np.ndarray | None = None
) -> Replicates:
    """Perplexity by group of the target, over blocks of the text; arguments as of predictions.perplexity.

    kept: positions that count, bool.
    """
    block, group = _blocks(len(targets)), groups[targets]
    weights = _unit_counts(block[-1] + 1)  # REPLICATES x blocks
    replicates = {}
    counted = np.ones(len(group), bool) if kept is None else kept
    members = {"total": counted} | {name: counted & (group == code) for name, code in GROUP_NAMES.items()}
    for name, member in members.items():
        nll = np.bincount(block[member], -np.asarray(logprob, np.float64)[member], minlength=weights.shape[1])
        count = np.bincount(block[member], minlength=weights.shape[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates[name] = np.exp((weights @ nll) / (weights @ count))
    return replicates


def uniq(predicted: np.ndarray, groups: np.ndarray) -> Replicates:
    """Number of distinct predicted types by group, over blocks of the text."""
    block = _blocks(len(predicted))
    seen = np.zeros((block[-1] + 1, len(groups)), bool)
    seen[block, predicted] = True
    packed = np.packbits(seen, axis=1)
    unions = (np.unpackbits(np.bitwise_or.reduce(packed[rows]))[: len(groups)] for rows in resample(len(seen)))
    counts = np.array(
        [[np.sum(groups[np.flatnonzero(union)] == code) for code in GROUP_NAMES.values()] for union in unions]
    )
    by_group = dict(zip(GROUP_NAMES, counts.T.astype(float), strict=True))
    return {"total": counts.sum(axis=1).astype(float)} | by_group


def spearman(cosine: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Spearman's correlation x 100 of a set of word pairs, over the pairs; cosine and human: one number a pair."""
    rows = resample(len(human))
    ranks = [rankdata(values[rows], axis=1) for values in (np.asarray(cosine), np.asarray(human))]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    with np.errstate(invalid="ignore", divide="ignore"):
        norms = np.sqrt((centred[0] ** 2).sum(1) * (centred[1] ** 2).sum(1))
        return 100 * (centred[0] * centred[1]).sum(1) / norms


def bleu(system: Sequence[str], references: Sequence[str], settings: Mapping[str, str]) -> np.ndarray:
    """BLEU, over sentences; settings: `tokenize` and `smooth_method` of sacreBLEU."""
    from sacrebleu.metrics import BLEU  # only translation needs it

    metric = BLEU(**settings, effective_order=True)  # of sentences; the corpora below do without
    counted = [metric.sentence_score(line, [truth]) for line, truth in zip(system, references, strict=True)]
    counts = np.array([(*part.counts, *part.totals, part.sys_len, part.ref_len) for part in counted])  # sentences x 10
    sums = (_unit_counts(len(counts)) @ counts).tolist()
    smooth = settings.get("smooth_method", "exp")
    scores = [
        BLEU.compute_bleu(
            [int(n) for n in row[:4]], [int(n) for n in row[4:8]], int(row[8]), int(row[9]), smooth_method=smooth
        )
        for row in sums
    ]
    return np.array([score.score for score in scores])


def mean(values: np.ndarray) -> np.ndarray:
    """Mean over units (examples); values: one number a unit."""
    return np.array([values[rows].mean() for rows in resample(len(values))])


def _blocks(length: int) -> np.ndarray:
    """Return the number of the block of each position."""
    return np.arange(length) * min(BLOCKS, length) // length


def _unit_counts(units: int) -> np.ndarray:
    """Return REPLICATES x units: how often each unit is in each resampled test set."""
    rows = resample(units)
    return np.stack([np.bincount(row, minlength=units) for row in rows]).astype(float)
