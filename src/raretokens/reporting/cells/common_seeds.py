"""Which seeds a column's rows average: those that most rows of the paper have, so that rows can be compared.

All rows would be stricter, but one row with one seed would take the others' seeds, and what they say, from the table.
"""

from collections import Counter
from typing import NamedTuple

from raretokens.evidence.scores import Scores, Value
from raretokens.papers.table import Column, RunRow

Seeds = frozenset[int | None]


class Averaged(NamedTuple):
    """A run's number in a column, and what a reader should know of its seeds."""

    value: Value | None
    remark: str


def common_seeds(rows: list[RunRow], column: Column, scores: Scores) -> Seeds | None:
    """Seeds that more than half of the rows of runs have, of those with any score; None where none of them has the metric.

    A row without this metric counts all the same, so that the columns of a table agree.
    """
    runs = [(row, scores.choose(row.names(column))) for row in rows if not row.data]
    if not any(run and scores.seeds(run, row.metric(column)) for row, run in runs):
        return None
    own = [seeds for _, run in runs if run and (seeds := scores.scored_seeds(run))]
    rows_with = Counter(seed for seeds in own for seed in seeds)
    return frozenset(seed for seed, count in rows_with.items() if 2 * count > len(own))


def averaged(run: str, metric: str, common: Seeds | None, scores: Scores) -> Averaged:
    """Over the common seeds; a run that has none of them has its own."""
    own, outdated = scores.seeds(run, metric), _outdated(scores.others(run))
    if common is None or not own:
        return Averaged(scores.value(run, metric), outdated)
    used = own & common or own
    said = filter(None, (_remark(own, used, common), outdated))
    return Averaged(scores.value(run, metric, used), "; ".join(said))


def _outdated(names: list[str]) -> str:
    return f"{', '.join(names)} left out: scored with other parameters" if names else ""


def _remark(own: Seeds, used: Seeds, common: Seeds) -> str:
    left_out = own - used
    if not common:
        return f"{_listed(used)} alone: no seed is that of most rows"
    if used != common:
        return f"{_listed(used)} alone; other rows average {_listed(common)}"
    return f"{_listed(left_out)} left out: most rows lack {'it' if len(left_out) == 1 else 'them'}" if left_out else ""


def _listed(seeds: Seeds) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(sorted(map(str, seeds)))}"
