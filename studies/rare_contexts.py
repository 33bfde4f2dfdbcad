"""Do models pay for rows that they leave untrained when they read them? perplexity by distance from the last rare piece.

A tied table is read as well as predicted from. Where rare rows are frozen, or their gradient gated, a rare piece in the context
says less. If that is what a method costs, its perplexity beside maximum likelihood's is the same as on contexts without a rare
piece. Targets that are not rare, among types that are not rare, so that the probability left to rare types is not counted:

    cd scales/small && python ../../studies/rare_contexts.py mle-2 freeze-2 freeze-b-2 agg-2

prints a line for each run but the first, group of targets and distance, and writes studies/rare-contexts-<scale>.csv: ratio to
the first run, with the middle 95 % of it over parts of the text drawn again.
"""

import csv
import sys
from itertools import product
from pathlib import Path

import numpy as np

from raretokens.evaluation.metrics.bootstrap import BLOCKS, resample
from raretokens.evaluation.metrics.predictions import exclude_rare_types
from raretokens.paths import predictions, tokens
from raretokens.pipeline.config import load
from raretokens.tokenization.token_files import tokens as stream
from raretokens.tokenization.vocabulary import FREQ, MED, RARE, VOCABULARY, Vocabulary

FARTHEST = (1, 4, 16, 64, 192)  # pieces back to the last rare one; the last is what a window surely holds
COLUMNS = ["run", "beside", "group", "nearest", "farthest", "targets", "ratio", "low", "high"]


def distances(rare: np.ndarray) -> np.ndarray:
    """Pieces from each position back to the last rare one before it; as many as there are before it where there is none."""
    last = np.where(rare, np.arange(len(rare)), -1)
    last = np.concatenate(([-1], np.maximum.accumulate(last)[:-1]))
    return np.arange(len(rare)) - last


def ratio(difference: np.ndarray, kept: np.ndarray) -> tuple[float, float, float]:
    """exp of the mean difference of log-probabilities of what is kept, and the middle 95 % of it over drawn parts of the text."""
    block = np.arange(len(difference)) * BLOCKS // len(difference)
    sums, counts = (np.bincount(block[kept], weights, BLOCKS) for weights in (difference[kept], None))
    rows = resample(BLOCKS)
    low, high = np.percentile(sums[rows].sum(1) / counts[rows].sum(1), [2.5, 97.5])
    return tuple(float(np.exp(value)) for value in (difference[kept].mean(), low, high))


def main(beside: str, *runs: str) -> None:
    parameters = load()
    run = parameters.run("lm", beside)
    folder = tokens(run.tokens)
    groups = Vocabulary.read(folder / VOCABULARY).frequency_groups(parameters.tokens[run.tokens].groups)
    targets = stream(folder, "test")
    rare = groups[targets] == RARE
    back = distances(rare)
    kinds = {"not rare": ~rare, "freq": groups[targets] == FREQ, "med": groups[targets] == MED}
    logprob = {name: among(name) for name in (beside, *runs)}
    rows = []
    for name, kind in product(runs, kinds):
        for nearest, farthest in zip((1, *(far + 1 for far in FARTHEST)), (*FARTHEST, len(targets)), strict=True):
            kept = kinds[kind] & (nearest <= back) & (back <= farthest)
            shown = [f"{value:.4f}" for value in ratio(logprob[beside] - logprob[name], kept)]
            ends = [nearest, "" if farthest == len(targets) else farthest]
            rows.append([name, beside, kind, *ends, int(kept.sum()), *shown])
    for row in [COLUMNS, *rows]:
        print(*(f"{cell:>9}" for cell in row))
    with (Path(__file__).parent / f"rare-contexts-{parameters.scale}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


def among(name: str) -> np.ndarray:
    return exclude_rare_types(*(np.load(predictions("lm", name) / f"{part}.npy") for part in ("logprob", "rare")))


if __name__ == "__main__":
    main(*sys.argv[1:])
