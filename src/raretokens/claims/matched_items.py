"""The metrics that two systems both have, with the scores of the items that all their runs have."""

from collections.abc import Sequence
from dataclasses import dataclass

from raretokens.claims.item_scores import EXAMPLES, ItemScores, RunScores, gather
from raretokens.errors import UserError

FileRun = tuple[str, RunScores]  # the file of a run, and the run


@dataclass(frozen=True)
class Matched:
    """Scores of two systems on the same items, and what was left out for that."""

    systems: tuple[str, str]
    metrics: tuple[str, ...]  # that both systems have
    scores: ItemScores
    dropped: dict[str, int]  # metric -> items that not all runs have
    only_one: dict[str, list[str]]  # system -> metrics that the other system lacks


def match(runs: Sequence[FileRun]) -> Matched:
    """Return the scores of two systems on the items that all runs have.

    Raises:
        UserError: if there are not two systems, or if they have no metric or no item of a metric in common.
    """
    for file, run in runs:
        gather([(file, run)])  # each run is valid by itself
    metrics: dict[str, dict[str, None]] = {}  # system -> its metrics, in order
    for _, run in runs:
        metrics.setdefault(run.system, {}).update(dict.fromkeys(run.metrics))
    a, b = _two(list(metrics))
    common = tuple(name for name in metrics[a] if name in metrics[b])
    if not common:
        each = "; ".join(f"{system} has {', '.join(names)}" for system, names in metrics.items())
        raise UserError(f"no metric in common: {each}")
    parts: list[FileRun] = []
    dropped = {}
    for metric in common:
        own = [(file, run) for file, run in runs if metric in run.metrics]
        found, dropped[metric] = _on_common_items(metric, own)
        parts += found
    only_one = {system: [name for name in names if name not in common] for system, names in metrics.items()}
    return Matched((a, b), common, gather(parts), dropped, only_one)


def _two(systems: list[str]) -> tuple[str, str]:
    if len(systems) == 1:
        raise UserError(f"one system only, {systems[0]!r}; give the scores of a second one, perhaps named by SYSTEM=FILE")
    if len(systems) != 2:
        raise UserError(f"{len(systems)} systems: {', '.join(systems)}; give two, or a YAML file of claims before the scores")
    return systems[0], systems[1]


def _on_common_items(metric: str, runs: list[FileRun]) -> tuple[list[FileRun], int]:
    """Return the runs with this metric alone, on the items that all of them have, and the number of dropped items."""
    listed = [(file, run) for file, run in runs if isinstance(run.metrics[metric], list)]
    names = [set(run.items) if run.items else set(range(len(run.metrics[metric]))) for _, run in listed]
    common, every = set.intersection(*names) if names else set(), set().union(*names)
    if unnamed := next((file for file, run in listed if not run.items), None):
        if len(common) < len(every):
            raise UserError(f"{unnamed}: metrics.{metric}: items without names; name the `items`, as not all runs have the same")
        return [(file, _part(metric, run)) for file, run in runs], 0
    if listed and not common:
        first, second = (", ".join(sorted(one)[:EXAMPLES]) for one in _disjoint(names))
        raise UserError(f"{metric}: no item in common: a run has items such as {first}, another has {second}")
    kept = None if len(common) == len(every) else common
    return [(file, _part(metric, run, kept)) for file, run in runs], len(every) - len(common)


def _disjoint(names: list[set]) -> tuple[set, set]:
    """Return the first set of items, and one that shares fewest items with it."""
    return names[0], min(names, key=lambda other: len(names[0] & other))


def _part(metric: str, run: RunScores, kept: set | None = None) -> RunScores:
    """Return a run with one metric; with `kept`, on these items."""
    scores, items, clusters = run.metrics[metric], run.items, run.clusters
    if not isinstance(scores, list):
        items = clusters = None
    elif kept is not None and items:
        places = [place for place, item in enumerate(items) if item in kept]
        scores, items = [scores[place] for place in places], [items[place] for place in places]
        clusters = clusters and [clusters[place] for place in places]
    logarithms = [metric] if metric in run.logarithms else []
    return run.replaced(metrics={metric: scores}, items=items, clusters=clusters, logarithms=logarithms)
