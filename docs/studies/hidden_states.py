"""Is the origin outside the hidden states, and do rare rows point away from them?

    python docs/studies/hidden_states.py lm/mle lm/agg recurrent/awd-mle                        # of the demo
    cd scales/small && python ../../docs/studies/hidden_states.py lm/wiki-mle lm/wiki-agg       # where the weights are

CosReg (section 4) explains degeneration by a direction that has a negative product with every hidden state. It exists if the
convex hull of the hidden states does not contain the origin. AGPS (section 2.1) observes that the product of a rare row with
almost every hidden state becomes negative in training. Both are measured at the positions of the test text, with the hidden
states that the softmax reads after training.

`distance` is that of the origin from the hull of the hidden states, each divided by its length. It is the largest cosine that
one direction reaches with every hidden state at once, and 0 where the hull contains the origin. Layer normalisation puts all
hidden states in one hyperplane (CosReg, appendix C). `of the hyperplane` is the distance that this alone explains, for the
longest hidden state. `negative` is the share of the pairs of a position and a row of the frequency group whose product is
negative. Rows in random directions have 0.5.

In the other columns the most frequent fifth of the types is popular, and the others are rare, as in FRAGE. `rare neighbours` is
the share of rare types among the ten nearest types of rare types by cosine, `Euclidean` by Euclidean distance (FRAGE,
footnote 2), and `lengths alone` by Euclidean distance where the rows have random directions and their own lengths. `of popular`
is the share of rare types among the nearest of popular types by cosine, and `chance` that among all types.

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
from raretokens.metrics.rows import evenly, members, unit
from reproduction import paths
from reproduction.corpora.tokenization.token_files import tokens as stream
from reproduction.pipeline.parameters_file import load
from reproduction.training.models.registry import build, load_weights

COLUMNS = ["run", "positions", "width", "distance", "of the hyperplane", "negative frequent", "negative medium", "negative rare",
           "rare neighbours", "Euclidean", "lengths alone", "of popular", "chance"]  # fmt: skip
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


def hyperplane(model: torch.nn.Module, states: np.ndarray) -> float | None:
    """Return the least cosine of the normal of layer normalisation's hyperplane, sum of (h - b) / g = 0, with a hidden state."""
    norm = getattr(model.layers, "norm", None)
    if norm is None:
        return None
    normal = 1 / norm.weight.detach().double().numpy()
    offset = abs(normal @ norm.bias.detach().double().numpy()) / np.linalg.norm(normal)
    return float(offset / np.linalg.norm(states, axis=1).max())


def rare_among_nearest(rows: np.ndarray, is_rare: np.ndarray, of_rare: bool = True) -> float:
    """Return the share of rare types among the nearest types of rare or of popular types, by Euclidean distance."""
    own = evenly(np.flatnonzero(is_rare == of_rare), QUERIES)
    apart = (rows**2).sum(1) - 2 * rows[own] @ rows.T  # plus the square of the query, which orders nothing
    apart[np.arange(len(own)), own] = np.inf
    return float(is_rare[np.argpartition(apart, TOP)[:, :TOP]].mean())


def neighbours(embedding: np.ndarray, counts: np.ndarray, groups: np.ndarray) -> list[float]:
    """Return the last five columns."""
    candidates = np.flatnonzero(groups >= 0)
    rows, is_rare = embedding[candidates].astype(np.float64), ~popular_types(counts, groups, POPULAR)[candidates]
    lengths, random = np.linalg.norm(rows, axis=1, keepdims=True), np.random.default_rng(0).normal(size=rows.shape)
    anyhow = lengths * unit(random)
    near, _ = rare_among_neighbours_of_rare(embedding, counts, groups)
    euclidean = [rare_among_nearest(vectors, is_rare) for vectors in (rows, anyhow)]
    return [near["rare"], *euclidean, rare_among_nearest(unit(rows), is_rare, of_rare=False), near["chance"]]


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
    apart = distance(unit(states).astype(np.float64)), hyperplane(model, states)
    shown = [*apart, *negative, *neighbours(embedding, vocabulary.counts, groups)]
    return [run_name, len(states), states.shape[1], *("" if value is None else f"{value:.3g}" for value in shown)]


if __name__ == "__main__":
    rows = [row(name) for name in sys.argv[1:]]
    print_table(COLUMNS, rows, width=17)
    write_table(f"hidden-states-{load().scale}", COLUMNS, rows)
