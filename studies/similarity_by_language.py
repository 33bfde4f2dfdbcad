"""Is it frequency, or is it language? Similarity and frequency of a translation model's types, language by language.

    cd scales/small && python ../../studies/similarity_by_language.py base-mle base-mle-2 base-mle-3 base-cosreg base-agps

AGPS figures 5 to 7 set the cosine with a word of the source language against how often the other types are targets. Types that
are never a target are words of the source language too, and words of one language may be alike because they are of one language.
So Spearman's correlation of cosine and falling frequency is written to studies/similarity-by-language-<scale>.csv over all types
(as `similarity.rank_correlation` has it), over types of the target text alone, by their counts there, and over types of the
source text alone, by theirs. `queries` are the declared ones, `words` are at most 200 evenly spaced whole words of the source
text, never a target, seen at least 20 times. The mean cosine of these words with both sorts of type stands beside.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import spearmanr

from raretokens import paths
from raretokens.evaluation.metrics.rows import evenly, unit
from raretokens.pipeline.config import load
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary

COLUMNS = ["run", "asked", "of", "all types", "target's types", "source's types", "cosine target's", "cosine source's"]
FEWEST, MOST = 20, 200  # times that a word is seen; words


def numbers(table: np.ndarray, vocabulary: Vocabulary, asked: np.ndarray) -> list[str]:
    """Means over the types asked: three correlations and two cosines."""
    targets = vocabulary.target_counts
    sources = vocabulary.counts - targets
    used = np.flatnonzero(vocabulary.counts)
    only_target, only_source = (used[own[used] == 0] for own in (sources, targets))
    vectors = unit(table.astype(np.float64))
    found = []
    for row in asked:
        cosine = vectors @ vectors[row]
        every, inside, beside = (kind[kind != row] for kind in (used, only_target, only_source))
        found.append([
            -spearmanr(targets[every], cosine[every]).statistic,
            -spearmanr(targets[inside], cosine[inside]).statistic,
            -spearmanr(sources[beside], cosine[beside]).statistic,
            cosine[inside].mean(),
            cosine[beside].mean(),
        ])  # fmt: skip
    return [f"{mean:.4f}" for mean in np.mean(found, axis=0)]


def main(*runs: str) -> None:
    parameters = load()
    rows: list[list] = [COLUMNS]
    for run in runs:
        vocabulary = Vocabulary.read(paths.tokens(parameters.run("nmt", run).tokens) / VOCABULARY)
        table = load_file(paths.trained("nmt", run) / "model.safetensors")["table"]
        pieces = np.array(vocabulary.tokens)
        words = np.char.startswith(pieces, "▁") & (vocabulary.target_counts == 0) & (vocabulary.counts >= FEWEST)
        declared = np.flatnonzero(np.isin(pieces, [f"▁{query}" for query in parameters.nmt.neighbours]))
        for asked, ids in (("queries", declared), ("words", evenly(np.flatnonzero(words), MOST))):
            rows.append([run, asked, len(ids), *numbers(table, vocabulary, ids)])
    for row in rows:
        print(*(f"{cell:>16}" for cell in row))
    with (Path(__file__).parent / f"similarity-by-language-{parameters.scale}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
