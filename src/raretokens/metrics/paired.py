"""Is one translation system better than another on this test set, or on this draw of sentences only?"""

from collections.abc import Mapping, Sequence

import numpy as np
from sacrebleu.metrics import BLEU

from raretokens.metrics.bleu import RESAMPLES

SEED = 12345  # sacreBLEU's own


def paired_bootstrap(
    baseline: Sequence[str], systems: Mapping[str, Sequence[str]], references: Sequence[str]
) -> tuple[dict[str, dict[str, float]], str]:
    """System -> delta, low, high and p: sacreBLEU less that of the baseline, over resampled test sets (Koehn 2004).

    delta: of the whole test set; low and high: the middle 95 % of the differences over the resamples; p: two-sided, from the
    same differences, so that it is below 0.05 where the interval leaves 0 out. All see the same resamples. Raises ValueError
    when the numbers of lines differ.
    """
    for name, lines in (("the baseline", baseline), *systems.items()):
        if len(lines) != len(references):
            raise ValueError(f"{name}: {len(lines)} hypotheses for {len(references)} references")
    metric = BLEU(tokenize="13a")
    named = [("", list(baseline)), *((name, list(lines)) for name, lines in systems.items())]
    truth = list(references)
    scores = {name: metric.corpus_score(lines, [truth]).score for name, lines in named}
    drawn = np.random.default_rng(SEED).choice(len(references), size=(RESAMPLES, len(references)))
    resampled = {name: _resampled(lines, references, drawn) for name, lines in named}
    value = {}
    for name in systems:
        differences = resampled[name] - resampled[""]
        low, high = np.percentile(differences, [2.5, 97.5])
        delta = float(scores[name] - scores[""])
        value[name] = {"delta": delta, "low": float(low), "high": float(high), "p": _p(differences)}
    return value, f"{metric.get_signature()}|bs:{RESAMPLES}|seed:{SEED}|interval:percentile-95"


def _p(differences: np.ndarray) -> float:
    """Twice the smaller share of resamples on a side of 0, both sides counting those at 0."""
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    return float(min(1.0, 2 * max(tail, 1 / (len(differences) + 1))))


def _resampled(hypotheses: Sequence[str], references: Sequence[str], drawn: np.ndarray) -> np.ndarray:
    """sacreBLEU of each resample; drawn: resamples x sentences, numbers of the sentences."""
    metric = BLEU(tokenize="13a", effective_order=True)  # of sentences; the corpus below does without
    counted = [metric.sentence_score(*pair) for pair in zip(hypotheses, ([line] for line in references), strict=True)]
    counts = np.array([(*part.counts, *part.totals, part.sys_len, part.ref_len) for part in counted])  # sentences x 10
    sums = (counts[some].sum(axis=0).tolist() for some in drawn)
    scores = [BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp") for row in sums]
    return np.array([score.score for score in scores])
