"""Nearest neighbours of all rows in time that grows with N log N: trees of random projections (Dasgupta and Freund 2008)."""

import numpy as np

PROJECTED = 64  # dimensions after a random projection, which keeps distances within about 9 % (one standard deviation)
TREES, LEAF = 8, 96  # trees; rows of a leaf, in which all pairs are compared
CELLS = 32  # leaves that are compared at once
SEED = 0


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
