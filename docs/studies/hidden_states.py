"""Is the origin outside the hidden states, and do rare rows point away from them?

    python docs/studies/hidden_states.py lm/mle lm/agg recurrent/awd-mle                        # of the demo
    cd scales/small && python ../../docs/studies/hidden_states.py lm/wiki-mle lm/wiki-agg       # where the weights are

CosReg (theorem 2) explains degeneration by a direction that has a negative product with every hidden state. It exists if the
convex hull of the hidden states does not contain the origin. AGPS (section 2.1) assumes that the product of a rare row with
almost every hidden state is negative. Both are measured at the positions of the test text, with the hidden states that the
softmax reads.

`distance` is that of the origin from the hull of the hidden states, each divided by its length. It is the largest cosine that
one direction has with all of them, and 0 where the hull contains the origin. After layer normalisation all hidden states lie in
a plane, so the distance is above 0 for any text unless this plane contains the origin (CosReg's appendix). `negative` is the
share of the pairs of a position and a row of the group whose product is negative. `rare neighbours` is the share of rare types
among the ten nearest types of rare types by cosine, and `Euclidean` by Euclidean distance (FRAGE, footnote 2). `chance` is the
share of rare types among all.

The table is written to hidden-states-<scale>.csv.
"""

import sys
from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import nnls
from shared import print_table, read_vocabulary, write_table

from raretokens.metrics.frequency import POPULAR, popular_types
from raretokens.metrics.neighbours import rare_among_neighbours_of_rare
from raretokens.metrics.rows import evenly, members
from reproduction import paths
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.pipeline.parameters_file import load
from reproduction.training.models.registry import build, load_weights

COLUMNS = ["run", "positions", "width", "distance", "negative frequent", "negative medium", "negative rare",
           "rare neighbours", "Euclidean", "chance"]  # fmt: skip
LENGTH, BATCH = 128, 32  # positions of a sequence, and sequences of a forward pass
NEW, CLOSE = 100, 1e-6  # states that join the hull at once; a distance below this is 0
QUERIES, TOP = 500, 10  # as in rare_among_neighbours_of_rare


@torch.no_grad()
def hidden_states(model: torch.nn.Module, text: np.ndarray) -> Iterator[np.ndarray]:
    """Yield hidden states, positions x width. Sequences do not overlap; what is left at the end is not read."""
    inputs = torch.from_numpy(text[: len(text) // LENGTH * LENGTH].astype(np.int64)).view(-1, LENGTH)
    for part in inputs.split(BATCH):
        found = model(part)
        yield getattr(found, "hidden", found).flatten(0, 1).numpy()


def distance(states: np.ndarray) -> float:
    """Return the distance of the origin from the convex hull of unit vectors (n x d), or 0 where it is in the hull.

    The nearest point of the hull of some of the vectors is found by non-negative least squares: min |A x|^2 + (1 - sum x)^2 has
    the nearest point in the direction of A x. Vectors that are nearer to the origin along it join until there are none.
    """
    chosen = evenly(np.arange(len(states)), NEW)
    while True:
        weights, _ = nnls(np.vstack([states[chosen].T, np.ones(len(chosen))]), np.append(np.zeros(states.shape[1]), 1.0))
        nearest = weights @ states[chosen] / weights.sum()
        length = float(np.linalg.norm(nearest))
        if length < CLOSE:
            return 0.0
        along = states @ (nearest / length)
        if along.min() > length - CLOSE:
            return length
        kept = chosen[weights > 0]
        chosen = np.union1d(kept, np.argpartition(along, NEW)[:NEW])


def euclidean_neighbours(embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> float:
    """Return the share of rare types among the nearest types of rare types, by Euclidean distance."""
    candidates = np.flatnonzero(groups >= 0)
    rows, is_rare = embedding[candidates].astype(np.float64), ~popular_types(counts, groups, POPULAR)[candidates]
    squares, own = (rows**2).sum(1), evenly(np.flatnonzero(is_rare), QUERIES)
    apart = squares - 2 * rows[own] @ rows.T  # plus the square of the query, which orders nothing
    apart[np.arange(len(own)), own] = np.inf
    return float(is_rare[np.argpartition(apart, TOP)[:, :TOP]].mean())


def row(name: str) -> list:
    task, run_name = name.split("/")
    parameters = load()
    run = parameters.run(task, run_name)
    vocabulary, groups = read_vocabulary(run.tokens, parameters)
    model = build(run.architecture, run.shape, len(vocabulary), LENGTH)
    load_weights(model, paths.trained(task, run_name) / "model.safetensors")
    embedding = model.eval().embedding.detach().numpy()
    states = np.concatenate(list(hidden_states(model, np.asarray(stream(paths.tokens(run.tokens), "test")))))
    negative = [
        np.mean([(part @ embedding[ids].T < 0).mean() for part in np.array_split(states, -(-len(states) // 4096))])
        for group, ids in members(groups).items() if group != "total"
    ]  # fmt: skip
    near, _ = rare_among_neighbours_of_rare(embedding, vocabulary.counts, groups)
    apart = distance((states / np.linalg.norm(states, axis=1, keepdims=True)).astype(np.float64))
    shown = [apart, *negative, near["rare"], euclidean_neighbours(embedding, vocabulary.counts, groups), near["chance"]]
    return [run_name, len(states), states.shape[1], *(f"{value:.3f}" for value in shown)]


if __name__ == "__main__":
    rows = [row(name) for name in sys.argv[1:]]
    print_table(COLUMNS, rows, width=17)
    write_table(f"hidden-states-{load().scale}", COLUMNS, rows)
