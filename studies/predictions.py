"""Where a method predicts a type of another frequency group than maximum likelihood: whose places do rare types take?

    cd scales/small && python ../../studies/predictions.py mle-2 agg-2 freeze-b-2

prints a line for each run but the first and each pair of groups, and writes studies/predictions-<scale>.csv: at how many of the
positions of the test text at which the first run predicts a type of one group the other predicts one of the other, and in
percent of them.
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
