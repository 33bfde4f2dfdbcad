"""Which AlignSim has an embedding matrix that knows nothing?

    cd scales/small && python ../../docs/studies/alignsim_floor.py

AlignSim (AGPS equations 16 and 17) compares a softmax over all types with the shares of a type's links. So AlignSim is not 0
for uninformed rows, and it differs between groups because types have different numbers of links. The study writes AlignSim
by group to alignsim-floor-<scale>.csv, for equal rows and for random Gaussian rows of the base model's width.
Orthogonal rows have the same softmax as equal rows.
"""

import sys

import numpy as np
from scipy import sparse
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.similarity import alignsim
from reproduction import paths
from reproduction.pipeline.parameters_file import load

COLUMNS = ["rows", "seed", "total", "freq", "med", "rare"]
SEEDS = range(1, 4)


def main(tokens: str = "nmt", size: str = "base") -> None:
    parameters = load()
    vocabulary, groups = read_vocabulary(tokens, parameters)
    links = sparse.load_npz(paths.alignment(tokens) / "links.npz")
    shape = len(vocabulary), parameters.nmt.models[size].shape["width"]
    rows = []
    for kind, seed, table in (
        ("alike", "", np.ones(shape)),
        *(("random", seed, np.random.default_rng(seed).standard_normal(shape)) for seed in SEEDS),
    ):
        found, _ = alignsim(table, links, groups)
        rows.append([kind, seed, *(f"{found[name]:.4f}" for name in COLUMNS[2:])])
    print_table(COLUMNS, rows, width=8)
    write_table(f"alignsim-floor-{parameters.scale}", COLUMNS, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
