"""Does similarity depend on frequency or on the language? Rank correlations of a translation model, language by language.

    cd scales/small
    python ../../docs/studies/similarity_by_language.py base-{mle,cosreg,agps}{,-2,-3} base-agg \\
        base-1k-{mle,agps,cosreg,agg}{,-2,-3}

AGPS figures 5 to 7 plot the cosine with a word of the source language against the frequency of the other types as targets.
Types that are never a target are words of the source language too. So words may be similar because they belong to one
language. The study writes Spearman's correlation of cosine and falling frequency to
similarity-by-language-<scale>.csv. It covers all types (as `similarity.rank_correlation` does), the types of the target text, and
the types of the source text, each with the counts of that text. `queries` are the declared queries. `words` are at most 200
evenly spaced whole words of the source text that occur at least 20 times and are never a target. The file also has the mean
cosine of these words with the types of each language.
"""

import sys

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import spearmanr
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.rows import evenly, unit
from raretokens.vocabulary import Vocabulary
from reproduction import paths
from reproduction.pipeline.parameters_file import load

COLUMNS = ["run", "asked", "of", "all types", "target's types", "source's types", "cosine target's", "cosine source's"]
FEWEST, MOST = 20, 200  # occurrences of a word; number of words


def numbers(table: np.ndarray, vocabulary: Vocabulary, asked: np.ndarray) -> list[str]:
    """Return three correlations and two cosines, as means over the queried types."""
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
    parameters, rows = load(), []
    for run in runs:
        vocabulary, _ = read_vocabulary(parameters.run("nmt", run).tokens, parameters)
        table = load_file(paths.trained("nmt", run) / "model.safetensors")["table"]
        pieces = np.array(vocabulary.tokens)
        words = np.char.startswith(pieces, "▁") & (vocabulary.target_counts == 0) & (vocabulary.counts >= FEWEST)
        declared = np.flatnonzero(np.isin(pieces, [f"▁{query}" for query in parameters.nmt.neighbours]))
        for asked, ids in (("queries", declared), ("words", evenly(np.flatnonzero(words), MOST))):
            rows.append([run, asked, len(ids), *numbers(table, vocabulary, ids)])
    print_table(COLUMNS, rows, width=16)
    write_table(f"similarity-by-language-{parameters.scale}", COLUMNS, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
