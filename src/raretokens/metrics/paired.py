"""Is one translation system better than another on this test set, or on this draw of sentences only?"""

from collections.abc import Mapping, Sequence

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from raretokens.metrics.bleu import RESAMPLES

SEED = 12345  # sacreBLEU's own


def paired_bootstrap(
    baseline: Sequence[str], systems: Mapping[str, Sequence[str]], references: Sequence[str]
) -> tuple[dict[str, dict[str, float]], str]:
    """System -> delta, low, high and p: sacreBLEU less that of the baseline, over resampled test sets (Koehn 2004).

    delta: of the whole test set; low and high: the middle 95 % of the differences over the resamples; p: two-sided,
    as sacreBLEU's PairedTest has it. All see the same resamples. Raises ValueError when the numbers of lines differ.
    """
    for name, lines in (("the baseline", baseline), *systems.items()):
        if len(lines) != len(references):
            raise ValueError(f"{name}: {len(lines)} hypotheses for {len(references)} references")
    metric = BLEU(tokenize="13a")
    named = [("", list(baseline)), *((name, list(lines)) for name, lines in systems.items())]
    signatures, results = PairedTest(named, {"BLEU": metric}, [list(references)], "bs", RESAMPLES)()
    scores = dict(zip(results["System"], results["BLEU"], strict=True))
    drawn = np.random.default_rng(SEED).choice(len(references), size=(RESAMPLES, len(references)))
    resampled = {name: _resampled(lines, references, drawn) for name, lines in named}
    value = {}
    for name in systems:
        low, high = np.percentile(resampled[name] - resampled[""], [2.5, 97.5])
        delta = float(scores[name].score) - float(scores[""].score)
        # PairedTest calls the difference of two equal outputs certain, at its smallest p.
        p = 1.0 if list(systems[name]) == list(baseline) else float(scores[name].p_value)
        value[name] = {"delta": delta, "low": float(low), "high": float(high), "p": p}
    return value, f"{signatures['BLEU']}|interval:percentile-95"


def _resampled(hypotheses: Sequence[str], references: Sequence[str], drawn: np.ndarray) -> np.ndarray:
    """sacreBLEU of each resample; drawn: resamples x sentences, numbers of the sentences."""
    metric = BLEU(tokenize="13a", effective_order=True)  # of sentences; the corpus below does without
    counted = [metric.sentence_score(*pair) for pair in zip(hypotheses, ([line] for line in references), strict=True)]
    counts = np.array([(*part.counts, *part.totals, part.sys_len, part.ref_len) for part in counted])  # sentences x 10
    sums = (counts[some].sum(axis=0).tolist() for some in drawn)
    scores = [BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp") for row in sums]
    return np.array([score.score for score in scores])
