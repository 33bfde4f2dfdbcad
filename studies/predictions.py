"""Which tokens do the rare predictions of a method replace?

    cd scales/small && python ../../studies/predictions.py mle-2 agg-2 freeze-b-2

The study compares the predicted types of two runs by frequency group, at each position of the test text. It prints a line
for each run after the first and each pair of groups. It writes studies/predictions-<scale>.csv: the number of positions at
which the first run predicts a type of one group and the other run a type of the other group, and their share in percent.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from raretokens.paths import predictions, tokens
from raretokens.pipeline.config import load
from raretokens.tokenization.vocabulary import GROUP_NAMES, VOCABULARY, Vocabulary

COLUMNS = ["run", "beside", "group", "beside_group", "positions", "percent"]


def main(beside: str, *runs: str) -> None:
    parameters = load()
    run = parameters.run("lm", beside)
    groups = Vocabulary.read(tokens(run.tokens) / VOCABULARY).frequency_groups(parameters.tokens[run.tokens].groups)
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
    for row in [COLUMNS, *rows]:
        print(*(f"{cell:>12}" for cell in row))
    with (Path(__file__).parent / f"predictions-{parameters.scale}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
