"""Is a tied embedding matrix an input or an output embedding? arXiv 2603.26663 finds it closer to untied output embeddings.

    cd scales/small && python ../../docs/studies/tying.py mle untied-mle

The first run has a tied matrix, the second (architecture untied_decoder) an input and an output embedding. All seeds with weights
on this machine (mle-2) are compared. The study prints the mean and the range of two similarities over pairs of seeds, and
writes them to tying-<scale>.csv:

* cka: linear centred kernel alignment (Kornblith et al., 2019) of the rows of all types that occur;
* neighbours: the mean share of the 10 nearest rows by cosine that two matrices have in common, of the 2,500 most frequent types.

Two seeds of one matrix are the upper reference, the input and the output embedding of one run the lower. Pairs of one seed stand
apart, because the tied matrix and the output embedding of one seed start alike.
"""

import sys
from itertools import combinations, product

import numpy as np
from safetensors.numpy import load_file
from shared import print_table, read_vocabulary, write_table

from reproduction.paths import trained
from reproduction.pipeline.parameters_file import load
from reproduction.training.models.registry import STORED_NAMES

FREQUENT, NEAREST = 2500, 10
COLUMNS = ["first", "second", "pairs", "cka", "cka low", "cka high", "neighbours", "neighbours low", "neighbours high"]


def cka(first: np.ndarray, second: np.ndarray) -> float:
    """Return the linear CKA of two matrices (N x d), Eq. 3 of Kornblith et al. after centring."""
    first, second = (matrix - matrix.mean(0) for matrix in (first, second))
    norm = np.linalg.norm
    return float(norm(first.T @ second) ** 2 / (norm(first.T @ first) * norm(second.T @ second)))


def nearest(matrix: np.ndarray) -> np.ndarray:
    """Return the ids of the nearest other rows of each row by cosine (N x NEAREST)."""
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean share of nearest rows that two matrices have in common."""
    pairs = zip(nearest(first), nearest(second), strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) / NEAREST for pair in pairs]))


def main(tied: str, untied: str) -> None:
    parameters = load()
    vocabulary, _ = read_vocabulary(parameters.run("lm", tied).tokens, parameters)
    occurring = np.flatnonzero(vocabulary.target_counts)
    frequent = np.argsort(-vocabulary.target_counts, kind="stable")[:FREQUENT]
    matrices: dict[str, dict[str, np.ndarray]] = {"tied": {}, "output": {}, "input": {}}  # by seed
    for run, names in ((tied, {"embedding": "tied"}), (untied, {"embedding": "output", "input_embedding": "input"})):
        for seed in ("", "-2", "-3"):
            file = trained("lm", run + seed) / "model.safetensors"
            if file.is_file():
                weights = load_file(file)
                for name, kind in names.items():
                    matrices[kind][seed] = weights[STORED_NAMES.get(name, name)].astype(np.float64)
    compared = {(kind, f"{kind}, other seed"): list(combinations(matrices[kind].values(), 2)) for kind in matrices}
    for first, second in combinations(matrices, 2):
        pairs = [(a == b, (matrices[first][a], matrices[second][b])) for a, b in product(matrices[first], matrices[second])]
        for same, name in ((False, f"{second}, other seed"), (True, f"{second}, same seed")):
            compared[first, name] = [pair for is_same, pair in pairs if is_same == same]
    rows = []
    for names, pairs in compared.items():
        if pairs:
            found = [[cka(*(matrix[occurring] for matrix in pair)) for pair in pairs],
                     [overlap(*(matrix[frequent] for matrix in pair)) for pair in pairs]]  # fmt: skip
            rows.append([*names, len(pairs), *(f"{number:.3f}" for of in found for number in (np.mean(of), min(of), max(of)))])
    print_table(COLUMNS, rows, width=18)
    write_table(f"tying-{parameters.scale}", COLUMNS, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
