"""Links of both directions made one set: grow-diag-final-and (Koehn et al., 2005), for many sentence pairs at a time."""

from collections.abc import Iterator

import numpy as np


class Grid:
    """Source x target positions of each sentence pair, with a border, one pair after the other in one flat array.

    direct: of each target token its source position from 1, 0 for none; inverse: of each source token its target position.
    m, n: lengths of the target and source sentences.
    """

    def __init__(self, n: np.ndarray, m: np.ndarray, direct: np.ndarray, inverse: np.ndarray) -> None:
        ends = np.cumsum((n + 2) * (m + 2))
        base = ends - (n + 2) * (m + 2)  # of each sentence pair
        first = np.cumsum(n) - n, np.cumsum(m) - m  # tokens before it
        here = np.zeros(ends[-1] if len(ends) else 0, np.uint8)
        # A token's place: where its row or column of the grid starts.
        row = np.repeat(base - first[0] * (m + 2), n) + (np.arange(n.sum()) + 1) * np.repeat(m + 2, n)
        column = np.repeat(base - first[1], m) + np.arange(m.sum()) + 1
        here[(column + direct * np.repeat(m + 2, m))[direct > 0]] = 1
        here[(row + inverse)[inverse > 0]] |= 2
        self.points = np.flatnonzero(here)  # row by row, pair by pair
        self.direct, self.inverse = (here[self.points] & way > 0 for way in (1, 2))
        self.pair = np.searchsorted(base, self.points, side="right") - 1
        self.width = m[self.pair] + 2
        inside = self.points - base[self.pair]
        self.source = first[0][self.pair] + inside // self.width - 1  # token of each point
        self.target = first[1][self.pair] + inside % self.width - 1
        self.linked = here == 3  # of each place
        self.has_source, self.has_target = np.zeros(len(inverse), bool), np.zeros(len(direct), bool)
        self.link(np.flatnonzero(self.direct & self.inverse))

    def link(self, points: np.ndarray) -> None:
        self.linked[self.points[points]] = True
        self.has_source[self.source[points]] = True
        self.has_target[self.target[points]] = True

    def has_neighbour(self, points: np.ndarray) -> np.ndarray:
        place, width = self.points[points], self.width[points]
        found = np.zeros(len(points), bool)
        for row in (-width, 0, width):
            for step in (-1, 0, 1):
                found |= self.linked[place + row + step]  # the point itself is not linked yet
        return found


def grow_diag_final_and(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Source and target token of each link, numbered through all sentence pairs, in the order of the grid."""
    _grow(grid)
    for way, token in ((grid.direct, grid.source), (grid.inverse, grid.target)):
        free = np.flatnonzero(way & ~grid.has_source[grid.source] & ~grid.has_target[grid.target])
        # A target token has one direct point, so only points of one source token exclude each other: the first is taken.
        grid.link(free[np.unique(token[free], return_index=True)[1]])
    kept = grid.linked[grid.points]
    return grid.source[kept], grid.target[kept]


def _grow(grid: Grid) -> None:
    """Add points beside links, row by row, where source or target token has no link; again until nothing changes."""
    left = np.flatnonzero(~grid.linked[grid.points])
    while len(left):
        for turn in _turns(grid.pair[left]):
            points = left[turn]
            free = ~(grid.has_source[grid.source[points]] & grid.has_target[grid.target[points]])
            grid.link(points[free & grid.has_neighbour(points)])
        added = grid.linked[grid.points[left]]
        grown = np.unique(grid.pair[left[added]])
        left = left[~added]
        left = left[np.isin(grid.pair[left], grown)]


def _turns(pair: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of the first point of each pair, of the second, and so on: pairs do not touch, points of one do."""
    start = np.searchsorted(pair, pair)  # pair is sorted
    turn = np.arange(len(pair)) - start
    order = np.argsort(turn, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(turn))[:-1])
