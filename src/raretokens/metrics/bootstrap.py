"""Compute paired bootstrap replicates of metrics, with the same resampled test sets for every run.

A replicate is the metric on one resampled test set. Replicates are written next to the scores. The confidence interval of an
effect comes from the paired differences of two runs' replicates (Efron and Tibshirani 1993; Koehn 2004 for BLEU).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from raretokens.metrics.score_files import Replicates
from raretokens.vocabulary import GROUP_NAMES

REPLICATES, SEED = 400, 12345
BLOCKS = 200  # contiguous blocks of a text, resampled as units because neighbouring tokens depend on each other


def resample(units: int) -> np.ndarray:
    """Return unit indices of each resampled test set, REPLICATES x units; a unit is a block, sentence or word pair."""
    return np.random.default_rng(SEED).integers(0, units, (REPLICATES, units))


def perplexity(
    logprob: np.ndarray, targets: np.ndarray, groups: np.ndarray, kept: np.ndarray | None = None
) -> Replicates:
    """Return replicates of perplexity by group of the target, resampling blocks of the text.

    Args:
        logprob, targets, groups: As in predictions.perplexity().
        kept: Positions that count (bool), or None for all.
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
    """Return replicates of the number of distinct predicted types by group, resampling blocks of the text."""
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
    """Return replicates of Spearman's correlation x 100, resampling word pairs; cosine and human: one value per pair."""
    rows = resample(len(human))
    ranks = [rankdata(values[rows], axis=1) for values in (np.asarray(cosine), np.asarray(human))]
    centred = [rank - rank.mean(axis=1, keepdims=True) for rank in ranks]
    with np.errstate(invalid="ignore", divide="ignore"):
        norms = np.sqrt((centred[0] ** 2).sum(1) * (centred[1] ** 2).sum(1))
        return 100 * (centred[0] * centred[1]).sum(1) / norms


def bleu(system: Sequence[str], references: Sequence[str], settings: Mapping[str, str]) -> np.ndarray:
    """Return replicates of corpus BLEU in percent, resampling sentences; settings: options of sacreBLEU's BLEU."""
    from sacrebleu.metrics import BLEU  # imported here because only translation needs sacreBLEU

    metric = BLEU(**settings, effective_order=True)  # effective order affects sentence scores, not the counts used below
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
    """Return replicates of the mean, resampling examples; values: one value per example."""
    return np.array([values[rows].mean() for rows in resample(len(values))])


def _blocks(length: int) -> np.ndarray:
    """Return the block index of each position."""
    return np.arange(length) * min(BLOCKS, length) // length


def _unit_counts(units: int) -> np.ndarray:
    """Return how often each unit occurs in each resampled test set, REPLICATES x units."""
    rows = resample(units)
    return np.stack([np.bincount(row, minlength=units) for row in rows]).astype(float)
