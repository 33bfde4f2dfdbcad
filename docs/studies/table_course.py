"""Would longer training change a verdict on the embedding matrix of translation?

    cd scales/small && python ../../docs/studies/table_course.py base-mle-2 base-mle-3 base-cosreg

The study prints a line for each run and each snapshot of its embedding matrix, and writes table-course-<scale>.csv.
The columns are the share of row pairs with a positive cosine (CosReg section 3.2), over all rows and by group, and the mean
cosine; the third singular value divided by the second, and the value at a tenth of the ranks divided by the first (CosReg
sections 3.1 and 6.3); the share of rare types among the ten nearest neighbours of rare types, and as the nearest (FRAGE
section 3). Reports use the selected checkpoint. The numbers of this study belong to single steps.
"""

import sys
from collections.abc import Iterator

import numpy as np
from safetensors import safe_open
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.isotropy import mean_cosine, positive_cosine
from raretokens.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.metrics.spectrum import singular_values
from raretokens.vocabulary import Vocabulary
from reproduction import paths
from reproduction.pipeline.parameters_file import load

GROUPS = ("total", "freq", "med", "rare")
COLUMNS = ["run", "update", *(f"positive {group}" for group in GROUPS), "mean cosine", "third to second",
           "tenth to first", "rare beside rare", "nearest to rare"]  # fmt: skip
SHOWN = 2000  # rows of a group, evenly spaced, whose cosines are counted


def course(run: str, vocabulary: Vocabulary, groups: np.ndarray) -> Iterator[list]:
    with safe_open(paths.trained("nmt", run) / "snapshots.safetensors", framework="numpy") as file:
        for step in sorted(file.keys()):
            yield [run, int(step), *numbers(file.get_tensor(step), vocabulary.counts, groups)]


def numbers(table: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> Iterator[str]:
    positive, _ = positive_cosine(table, groups, limit=SHOWN)
    yield from (f"{positive[group]:.3f}" for group in GROUPS)
    values, _ = singular_values(table, groups)
    yield from (
        f"{mean_cosine(table, groups)[0]:.4f}",
        f"{values[2] / values[1]:.3f}",
        f"{values[len(values) // 10]:.3f}",
    )
    near, _ = rare_among_neighbours_of_rare(table, counts, groups)
    yield from (f"{near['rare']:.3f}", f"{near['nearest']:.3f}")


def main(*runs: str) -> None:
    parameters, rows = load(), []
    for run in runs:
        rows += course(run, *read_vocabulary(parameters.run("nmt", run).tokens, parameters))
    print_table(COLUMNS, rows, width=16)
    write_table(f"table-course-{parameters.scale}", COLUMNS, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
