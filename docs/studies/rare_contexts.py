"""Does a model lose perplexity after rare tokens that it reads? Perplexity by distance from the last rare token.

    cd scales/small && python ../../docs/studies/rare_contexts.py mle-2 freeze-2 freeze-b-2 agg-2

A tied embedding matrix is read as well as predicted from. If rare rows are frozen or gated, a rare token in the context
carries less information. If this were the whole cost of a method, its perplexity would equal that of maximum likelihood in
contexts without a rare token. The targets are not rare, and the softmax excludes rare types, so that their probability does
not count.

The study prints a line for each run after the first, each group of targets and each distance. It writes
rare-contexts-<scale>.csv: the ratio to the first run, with its 95 % bootstrap interval over parts of the text.
"""

import sys
from itertools import product

import numpy as np
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.bootstrap import BLOCKS, resample
from raretokens.metrics.predictions import exclude_rare_types
from raretokens.vocabulary import FREQ, MED, RARE
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.paths import predictions, tokens
from reproduction.pipeline.parameters_file import load

FARTHEST = (1, 4, 16, 64, 192)  # distances to the last rare token; every window contains the largest
COLUMNS = ["run", "beside", "group", "nearest", "farthest", "targets", "ratio", "low", "high"]


def distances(rare: np.ndarray) -> np.ndarray:
    """Return the distance from each position to the last rare token before it, or to the start if there is none."""
    last = np.where(rare, np.arange(len(rare)), -1)
    last = np.concatenate(([-1], np.maximum.accumulate(last)[:-1]))
    return np.arange(len(rare)) - last


def ratio(difference: np.ndarray, kept: np.ndarray) -> tuple[float, float, float]:
    """Return exp of the mean difference of log-probabilities at the kept positions, and its 95 % bootstrap interval."""
    block = np.arange(len(difference)) * BLOCKS // len(difference)
    sums, counts = (np.bincount(block[kept], weights, BLOCKS) for weights in (difference[kept], None))
    rows = resample(BLOCKS)
    low, high = np.percentile(sums[rows].sum(1) / counts[rows].sum(1), [2.5, 97.5])
    return tuple(float(np.exp(value)) for value in (difference[kept].mean(), low, high))


def main(beside: str, *runs: str) -> None:
    parameters = load()
    run = parameters.run("lm", beside)
    (_, groups), targets = read_vocabulary(run.tokens, parameters), stream(tokens(run.tokens), "test")
    rare = groups[targets] == RARE
    back = distances(rare)
    kinds = {"not rare": ~rare, "freq": groups[targets] == FREQ, "med": groups[targets] == MED}
    logprob = {name: log_probabilities(name) for name in (beside, *runs)}
    rows = []
    for name, kind in product(runs, kinds):
        for nearest, farthest in zip((1, *(far + 1 for far in FARTHEST)), (*FARTHEST, len(targets)), strict=True):
            kept = kinds[kind] & (nearest <= back) & (back <= farthest)
            shown = [f"{value:.4f}" for value in ratio(logprob[beside] - logprob[name], kept)]
            ends = [nearest, "" if farthest == len(targets) else farthest]
            rows.append([name, beside, kind, *ends, int(kept.sum()), *shown])
    print_table(COLUMNS, rows, width=9)
    write_table(f"rare-contexts-{parameters.scale}", COLUMNS, rows)


def log_probabilities(name: str) -> np.ndarray:
    """Return the log-probability of each target of a run, in a softmax without rare types."""
    return exclude_rare_types(*(np.load(predictions("lm", name) / f"{part}.npy") for part in ("logprob", "rare")))


if __name__ == "__main__":
    main(*sys.argv[1:])
