"""Points of the figures of a run, as the report draws them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from raretokens.errors import UserError
from raretokens.metrics.neighbours import similarity_curve
from raretokens.metrics.spectrum import projection, singular_values
from raretokens.scoring.artifacts import Artifacts
from raretokens.scoring.history import Moment, geometry_points, log_points, moment
from raretokens.scoring.score_files import Point

FINAL, EARLY = 200, 100  # points a group: of the scored table, of a snapshot


def points(
    artifacts: Artifacts, pictures: Mapping[str, bool], queries: Sequence[str], updates: Sequence[int]
) -> tuple[list[Point], list[Moment]]:
    """All series of a run, and the history of its table. updates: when the table is also projected."""
    table, groups = artifacts.table, artifacts.groups
    series = [*_pictures(artifacts, pictures, table, "", FINAL)]
    history = []
    for update, snapshot in artifacts.snapshots():
        history.append(moment(update, snapshot, groups))
        if update in updates:
            series += _pictures(artifacts, pictures, snapshot, f"@{update}", EARLY)
    _require(artifacts, updates, [now.update for now in history])
    values = singular_values(table, groups)[0]
    series += [("singular_values", "total", rank, value) for rank, value in enumerate(values, start=1)]
    series += geometry_points(history)
    for query in queries:
        curve = similarity_curve(table, artifacts.vocabulary, groups, query)
        series += [(f"similarity:{query}", group, rank, cosine) for rank, cosine, group in curve]
    return series + log_points(artifacts.log), history


def _pictures(
    artifacts: Artifacts, pictures: Mapping[str, bool], table: np.ndarray, suffix: str, sample: int
) -> Iterator[Point]:
    for name, centred in pictures.items():
        for group, coordinates in projection(table, artifacts.groups, sample=sample, centred=centred)[0].items():
            yield from ((name + suffix, group, x, y) for x, y in coordinates)


def _require(artifacts: Artifacts, updates: Sequence[int], kept: list[int]) -> None:
    """A run that was shorter than an update cannot show it; one that went on must have kept its table there."""
    missing = [update for update in updates if update not in kept and update <= max(kept, default=0)]
    if missing:
        task, name = artifacts.run.task, artifacts.run.name
        raise UserError(f"{task}.curves: {missing}; the snapshots of {name} are of updates {', '.join(map(str, kept))}")
