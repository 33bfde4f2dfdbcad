"""Which AlignSim has an embedding matrix that knows nothing?

    cd scales/small && python ../../studies/alignsim_floor.py

AlignSim (AGPS equations 16 and 17) compares a softmax over all types with the shares of a type's links. So AlignSim is not 0
for uninformed rows, and it differs between groups because types have different numbers of links. The study writes AlignSim
by group to studies/alignsim-floor-<scale>.csv, for equal rows and for random Gaussian rows of the base model's width.
Orthogonal rows have the same softmax as equal rows.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from scipy import sparse

from raretokens import paths
from raretokens.evaluation.metrics.similarity import alignsim
from raretokens.pipeline.config import load
from raretokens.tokenization.vocabulary import VOCABULARY, Vocabulary

COLUMNS = ["rows", "seed", "total", "freq", "med", "rare"]
SEEDS = range(1, 4)


def main(tokens: str = "nmt", size: str = "base") -> None:
    parameters = load()
    vocabulary = Vocabulary.read(paths.tokens(tokens) / VOCABULARY)
    links = sparse.load_npz(paths.alignment(tokens) / "links.npz")
    groups = vocabulary.frequency_groups(parameters.tokens[tokens].groups)
    shape = len(vocabulary), parameters.nmt.models[size].shape["width"]
    rows: list[list] = [COLUMNS]
    for kind, seed, table in (
        ("alike", "", np.ones(shape)),
        *(("random", seed, np.random.default_rng(seed).standard_normal(shape)) for seed in SEEDS),
    ):
        found, _ = alignsim(table, links, groups)
        rows.append([kind, seed, *(f"{found[name]:.4f}" for name in COLUMNS[2:])])
    for row in rows:
        print(*(f"{cell:>8}" for cell in row))
    with (Path(__file__).parent / f"alignsim-floor-{parameters.scale}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
