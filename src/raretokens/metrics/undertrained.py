"""Find under-trained rows of an embedding matrix without a list of known ones.

Training moves a row when its token occurs. A row whose token never occurs gets only what all rows get: the shared push of the
softmax, or weight decay. Such rows therefore share direction and length, or are short, or are exact copies. Each statistic is
compared with the bulk of the rows, and the false-discovery rate of the candidates is controlled (Benjamini and Hochberg 1995).

Assumptions: more than three quarters of the rows are trained. Among trained rows, each statistic is normal below its median once
it is transformed. The transformations are the logarithm of the length, and a power of the distance that makes its quartiles
symmetric. The median and the lower quartile of all rows give the null distribution.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import false_discovery_control, norm

from raretokens.metrics.rows import blocks, unit

RATE = 0.05  # false-discovery rate
NEIGHBOURS = 5  # neighbours of a row that measure its density; a reference has more rows
MIN_ROWS = 200  # with fewer rows, no bulk can be fitted
MAX_ITERATIONS = 6  # of the reference; the set of rows may alternate between two
MAX_FAMILIES = 5  # dense regions that are tried as the reference
MAX_LENGTH_SPREAD = 0.25  # coefficient of variation of the reference's lengths, divided by that of all rows
SAME_LENGTH = 1e-3  # coefficient of variation below which lengths say nothing, as in normalised embeddings
TINY = 1e-30
INDICATORS = ("direction", "length", "copies")
PROJECTED = 64  # dimensions after a random projection, which keeps distances within about 9 % (one standard deviation)
TREES, LEAF = 8, 96  # trees of the search for neighbours; rows of a leaf, in which all pairs are compared
CELLS = 32  # leaves that are compared at once
SEED = 0  # of the projection and the trees


class Undertrained(NamedTuple):
    """Scores of all rows, in the order of the ids."""

    ids: np.ndarray
    q: np.ndarray  # smallest false-discovery rate at which the row is a candidate
    rank: np.ndarray  # places in `ids`, the most conspicuous row first
    indicator: np.ndarray  # index in INDICATORS of the statistic with the smallest q-value
    distance: np.ndarray | None  # cosine distance to the reference direction; None: no direction is shared conspicuously
    length: np.ndarray
    reference: np.ndarray  # ids of the rows whose mean is the reference direction
    signature: str

    @property
    def candidates(self) -> np.ndarray:
        """Places of the candidates at RATE, the most conspicuous row first."""
        return self.rank[self.q[self.rank] <= RATE]


def find_undertrained(embedding: Any, ids: np.ndarray) -> Undertrained | None:
    """Return the scores of the rows `ids`. Return None for fewer than MIN_ROWS rows that differ.

    The distance to the reference direction and the length give a q-value each. The smaller one counts, multiplied by two. A row
    with at least NEIGHBOURS exact copies has q = 0.
    """
    length, projected, copies = _read(embedding, ids)
    kept = np.flatnonzero((length > 0) & (copies.first == np.arange(len(ids))))  # copies take part once
    if len(kept) < MIN_ROWS:
        return None
    log_p = np.zeros((len(INDICATORS), len(ids)))
    log_length = np.log(np.maximum(length, TINY))
    log_p[1] = norm.logcdf(_standardise(log_length, log_length[kept]))
    log_p[2, copies.number > NEIGHBOURS] = -np.inf
    reference = kept[_find_reference(projected[kept], length[kept])]
    distance = None
    if len(reference):
        distance, spread = _distances(embedding, ids, reference)
        symmetric = _make_symmetric(spread**2, kept)
        log_p[0] = norm.logcdf(_standardise(symmetric, symmetric[kept]))
        log_p[0, length == 0] = 0.0
    both = np.stack([false_discovery_control(np.exp(one)) for one in log_p])
    q, indicator = np.minimum(1.0, 2 * both.min(axis=0)), both.argmin(axis=0)
    rank = np.lexsort((np.arange(len(ids)), np.take_along_axis(log_p, indicator[None], 0)[0], q))
    signature = (
        f"indicators:direction+length+copies|reference:mean-of-{len(reference)}-densest|null:normal-from-median-and-quartile|"
        f"fdr:{RATE:g}"
    )
    return Undertrained(ids, q, rank, indicator, distance, length, ids[reference], signature)


def _standardise(values: np.ndarray, bulk: np.ndarray) -> np.ndarray:
    """Return standard scores under the normal distribution with the median and the lower quartile of the bulk."""
    quartile, median = np.quantile(bulk, (0.25, 0.5))
    return (values - median) / max((median - quartile) / -norm.ppf(0.25), TINY)


def _make_symmetric(values: np.ndarray, bulk: np.ndarray) -> np.ndarray:
    """Return positive values to the power (0, the logarithm, to 1) that makes the quartiles of the bulk symmetric (Box-Cox)."""
    lower, median, upper = np.log(np.maximum(np.quantile(values[bulk], (0.25, 0.5, 0.75)), TINY))

    def skew(power: float) -> float:
        return float(np.exp(power * (upper - median)) + np.exp(power * (lower - median)) - 2)

    logarithms = np.log(np.maximum(values, TINY))
    if upper + lower >= 2 * median:
        return logarithms
    power = 1.0 if skew(1.0) <= 0 else brentq(skew, 1e-6, 1.0) if skew(1e-6) < 0 else 0.0
    return np.exp(power * logarithms) if power else logarithms


# The rows, read once.


class Copies(NamedTuple):
    """Rows with equal numbers."""

    first: np.ndarray  # place of the first equal row
    number: np.ndarray  # number of equal rows, with the row itself


def _read(embedding: Any, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, Copies]:
    """Return lengths, projected unit rows, and copies."""
    matrix = projection_matrix(embedding.shape[1])
    lengths, parts, hashes = [], [], []
    for block in blocks(embedding, ids):
        lengths.append(np.linalg.norm(block, axis=1))
        parts.append((unit(block).astype(np.float32) @ matrix).astype(np.float32))
        hashes += [hash(row.tobytes()) for row in block.astype(np.float32)]
    _, first, inverse, number = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    return np.concatenate(lengths), np.concatenate(parts), Copies(first[inverse], number[inverse])


# The reference direction.


def _find_reference(points: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the places of the rows that lie densest around one direction and have one length, or none.

    Dense rows may also be a family of similar tokens, such as numbers. Their lengths differ nearly as those of all rows do, while
    rows that never had a step of their own have the same length. A family is passed over, and the next densest row is the start.

    Args:
        points: projected unit rows.
        length: length of each row.
    """
    points = points - points.mean(axis=0)
    distances, neighbours = nearest_neighbours(points, NEIGHBOURS)
    density = np.log(np.maximum(distances[:, -1], TINY))
    is_start = false_discovery_control(norm.cdf(_standardise(density, density))) <= RATE
    if is_start.sum() <= NEIGHBOURS:
        return np.empty(0, np.int64)
    bulk = length.std() / length.mean()
    for _ in range(MAX_FAMILIES):
        if not is_start.any():
            break
        densest = int(np.where(is_start, density, np.inf).argmin())
        chosen, around = _grow(points, np.append(neighbours[densest], densest))
        if bulk < SAME_LENGTH or length[chosen].std() / length[chosen].mean() <= MAX_LENGTH_SPREAD * bulk:
            return chosen
        is_start[around] = is_start[densest] = False
    return np.empty(0, np.int64)


def _grow(points: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the closest half of the candidates around a set of points, and all candidates, once the half is stable."""
    chosen = np.sort(chosen)
    for _ in range(MAX_ITERATIONS):
        spread = np.linalg.norm(points - points[chosen].mean(axis=0), axis=1)
        spread[chosen] *= len(chosen) / (len(chosen) - 1)
        log_spread = np.log(np.maximum(spread, TINY))
        around = np.flatnonzero(false_discovery_control(norm.cdf(_standardise(log_spread, log_spread))) <= RATE)
        closest = np.sort(np.argsort(spread, kind="stable")[: max(NEIGHBOURS + 1, len(around) // 2)])
        if np.array_equal(closest, chosen):
            break
        chosen = closest
    return chosen, around


def _distances(embedding: Any, ids: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two distances of each row to the mean unit row of the reference: by cosine, and of the unit row.

    The distance of a row of the reference is that to the mean of the other rows, so that no row attracts the mean to itself.
    """
    centre = sum((unit(block).sum(axis=0) for block in blocks(embedding, ids[reference])), np.zeros(embedding.shape[1]))
    centre /= len(reference)
    products = np.concatenate([unit(block) @ centre for block in blocks(embedding, ids)])
    size = np.linalg.norm(centre)
    spread = np.sqrt(np.maximum(1 - 2 * products + size**2, 0))
    spread[reference] *= len(reference) / (len(reference) - 1)
    return 1 - products / size, spread


# Nearest neighbours of all rows in time that grows with N log N: trees of random projections (Dasgupta and Freund 2008).


def projection_matrix(width: int) -> np.ndarray:
    """Return a random matrix (width x PROJECTED, float32) that keeps distances on average, or the identity of a narrow space."""
    if width <= PROJECTED:
        return np.eye(width, dtype=np.float32)
    normal = np.random.default_rng(SEED).standard_normal((width, PROJECTED), np.float32)
    return normal / np.float32(np.sqrt(PROJECTED))


def nearest_neighbours(points: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return distances and places (points x number each) of neighbours that are nearest, or nearly so.

    Each tree halves the points at the median along one random direction after the other, until a leaf has at most LEAF points. A
    neighbour is missed if every tree separates the pair. Members of a tight cluster are seldom separated.

    Args:
        points: N x d, float32, with more than `number` points.
        number: neighbours of each point.
    """
    size, random = len(points), np.random.default_rng(SEED)
    levels = max(0, int(np.ceil(np.log2(size / LEAF))))
    distances, indices = np.full((size, number), np.inf, np.float32), np.full((size, number), -1)
    for _ in range(TREES):
        directions = random.standard_normal((points.shape[1], max(levels, 1)), np.float32)
        leaves = _leaves(points @ directions, levels, random)
        for start in range(0, len(leaves), CELLS):
            _compare(points, leaves[start : start + CELLS], distances, indices)
    return distances, indices


def _leaves(along: np.ndarray, levels: int, random: np.random.Generator) -> np.ndarray:
    """Return the places in each leaf (2^levels x size). Some places occur twice, so that all leaves have the same size.

    along: coordinates along the direction of each level (points x levels).
    """
    size = -(-len(along) // 2**levels) * 2**levels
    order = np.concatenate((np.arange(len(along)), random.choice(len(along), size - len(along))))
    for level in range(levels):
        cells = order.reshape(2**level, -1)
        order = np.take_along_axis(cells, along[cells, level].argsort(axis=1, kind="stable"), axis=1)
    return order.reshape(2**levels, -1)


def _compare(points: np.ndarray, leaves: np.ndarray, distances: np.ndarray, indices: np.ndarray) -> None:
    """Compare all pairs in each leaf. Update the nearest neighbours in place."""
    rows, number = points[leaves], distances.shape[1]
    squares = (rows * rows).sum(axis=2)
    pairs = squares[:, :, None] + squares[:, None] - 2 * (rows @ rows.transpose(0, 2, 1))
    pairs[leaves[:, :, None] == leaves[:, None]] = np.inf
    nearest = np.argpartition(pairs, min(number, pairs.shape[2]) - 1, axis=2)[:, :, :number]
    found = np.sqrt(np.maximum(np.take_along_axis(pairs, nearest, axis=2), 0))
    members, first = np.unique(leaves, return_index=True)
    found = found.reshape(leaves.size, -1)[first]
    near = np.take_along_axis(np.broadcast_to(leaves[:, None], pairs.shape), nearest, axis=2)
    near = near.reshape(leaves.size, -1)[first]
    both, where = np.concatenate((distances[members], found), 1), np.concatenate((indices[members], near), 1)
    order = np.argsort(where, axis=1, kind="stable")
    both, where = np.take_along_axis(both, order, 1), np.take_along_axis(where, order, 1)
    both[:, 1:][where[:, 1:] == where[:, :-1]] = np.inf  # the same neighbour in two trees
    order = np.argsort(both, axis=1, kind="stable")[:, :number]
    distances[members], indices[members] = np.take_along_axis(both, order, 1), np.take_along_axis(where, order, 1)
