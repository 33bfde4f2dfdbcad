"""Which tokens do the rare predictions of a method replace?

    cd scales/small && python ../../docs/studies/predictions.py mle-2 agg-2 freeze-b-2

The study compares the predicted types of two runs by frequency group, at each position of the test text. It prints a line
for each run after the first and each pair of groups. It writes predictions-<scale>.csv: the number of positions at
which the first run predicts a type of one group and the other run a type of the other group, and their share in percent.
"""

import sys

import numpy as np
from shared import print_table, read_vocabulary, write_table

from raretokens.vocabulary import GROUP_NAMES
from reproduction.paths import predictions
from reproduction.pipeline.parameters_file import load

COLUMNS = ["run", "beside", "group", "beside_group", "positions", "percent"]


def main(beside: str, *runs: str) -> None:
    parameters = load()
    _, groups = read_vocabulary(parameters.run("lm", beside).tokens, parameters)
    predicted = {name: groups[np.load(predictions("lm", name) / "prediction.npy")] for name in (beside, *runs)}
    rows = []
    for name in runs:
        for before, code in GROUP_NAMES.items():
            there = predicted[name][predicted[beside] == code]
            counts = {after: int(np.sum(there == other)) for after, other in GROUP_NAMES.items()}
            rows += [
                [name, beside, after, before, count, f"{100 * count / len(there):.1f}"]
                for after, count in counts.items()
            ]
    print_table(COLUMNS, rows, width=12)
    write_table(f"predictions-{parameters.scale}", COLUMNS, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
