"""Scores of any systems, item by item, and claims on these systems.

RunScores is the schema of a score file, and OwnClaim that of a claim. Comparisons read ItemScores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from raretokens.claims.comparison import Comparison
from raretokens.claims.expectation import Expectation, Side
from raretokens.claims.scores import Scores, SheetLine
from raretokens.errors import UserError, nearest
from raretokens.metrics.bootstrap import SEED
from raretokens.schema import Strict

RESAMPLES = 10_000  # of the test items; the error of an interval's width is then below one percent
CHUNK = 1 << 22  # numbers in memory at a time
EXAMPLES = 3  # items named in an error message


class RunScores(Strict):
    """The scores of one run of a system: a training with one seed, or a fixed model."""

    system: str = Field(min_length=1, description="name of the system, which claims use")
    seed: int | None = Field(None, ge=0, description="seed of the run; without it the system is a fixed model")
    model: str = Field("", description="systems of the same model share their seed variance")
    items: list[str] | None = Field(None, description="names of the test items; default: their positions")
    clusters: list[str] | None = Field(
        None, description="cluster of each item, such as the text of a question; default: each item is its own"
    )
    metrics: dict[str, list[float] | float] = Field(
        min_length=1, description="metric -> the score of each item, or one number for the whole test set"
    )
    logarithms: list[str] = Field(
        [], description="metrics that are the exponential of the mean score, such as a perplexity whose scores are NLL in nats"
    )


class ItemColumn:
    """A metric of a run, item by item, in the order of the items' names."""

    def __init__(
        self, scores: Sequence[float], items: Sequence[str], clusters: Sequence[str], is_logarithm: bool = False
    ) -> None:
        order = sorted(range(len(items)), key=items.__getitem__)
        self.items = tuple(items[index] for index in order)
        self.scores = np.array([scores[index] for index in order], float)
        self.clusters = np.unique([clusters[index] for index in order], return_inverse=True)[1]
        self.mean = float(self.scores.mean())
        self.is_logarithm = is_logarithm

    @property
    def number(self) -> float:
        """The metric: the mean score, or its exponential."""
        return float(self.metric_of(self.mean))

    @np.errstate(over="ignore")
    def metric_of(self, means: Any) -> Any:
        return np.exp(means) if self.is_logarithm else means

    @property
    def units(self) -> int:
        return int(self.clusters.max()) + 1


def resampled(columns: Sequence[ItemColumn]) -> np.ndarray:
    """Return the means of runs with the same items on resampled test sets; shape (runs, RESAMPLES).

    The deviations are multiplied by sqrt(n / (n - 1)) for n clusters, which makes their variance unbiased.
    """
    clusters, units, random = columns[0].clusters, columns[0].units, np.random.default_rng(SEED)
    sums = np.array([np.bincount(clusters), *(np.bincount(clusters, one.scores) for one in columns)], float)
    found, step = [], max(1, CHUNK // units)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        chosen = random.integers(0, units, (rows, units)) + units * np.arange(rows)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=rows * units).reshape(rows, units)
        sizes, *totals = sums @ counts.T
        found.append(np.array(totals) / sizes)
    means = np.array([[one.mean] for one in columns])
    return means + (np.concatenate(found, axis=1) - means) * (units / max(1, units - 1)) ** 0.5


@dataclass
class ItemScores(Scores):
    """Scores of runs that are given item by item, without the files of the pipeline."""

    columns: dict[str, dict[str, ItemColumn | float]] = field(default_factory=dict)  # run -> metric -> scores
    replicates: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)  # run and metric -> its resamples

    def number(self, name: str, metric: str) -> float | None:
        column = self.columns.get(name, {}).get(metric)
        return column.number if isinstance(column, ItemColumn) else column

    def bootstrap(self, name: str, metric: str) -> np.ndarray | None:
        columns = {run: one for run, row in self.columns.items() if isinstance(one := row.get(metric), ItemColumn)}
        if name in columns and (name, metric) not in self.replicates:
            rows = zip(columns, resampled(list(columns.values())), strict=True)
            self.replicates |= {(run, metric): columns[run].metric_of(values) for run, values in rows}
        return self.replicates.get((name, metric))

    def test_freedom(self, metric: str) -> float:
        units = [one.units - 1 for row in self.columns.values() if isinstance(one := row.get(metric), ItemColumn)]
        return min(units, default=super().test_freedom(metric))

    def side(self, system: str, metric: str) -> Side:
        """Return the side of a comparison.

        Raises:
            UserError: if there is no such system, or no system has the metric.
        """
        systems = {line.objective: name for name, line in reversed(self.lines.items())}
        if system not in systems:
            raise UserError(f"no scores of the system {system!r}; {nearest(system, systems)}")
        metrics = {metric for row in self.columns.values() for metric in row}
        if metric not in metrics:
            raise UserError(f"no scores of the metric {metric!r}; {nearest(metric, metrics)}")
        run = systems[system]
        return Side(runs=[run], metric=metric, data=self.cache[run] == {"seed": None})


def gather(runs: Iterable[tuple[str, RunScores]]) -> ItemScores:
    """Return the scores of runs. The metrics of a system and seed may come in several parts.

    Args:
        runs: pairs of the file of a run, for error messages, and the run.

    Raises:
        UserError: for scores that are given twice or cannot be compared.
    """
    found = ItemScores({})
    names: dict[tuple[str, int | None], str] = {}
    for file, run in runs:
        others = [(seed, name) for (system, seed), name in names.items() if system == run.system]
        if any((seed is None) != (run.seed is None) for seed, _ in others):
            raise UserError(f"{file}: {run.system} has runs with and without a seed; give each run its seed")
        first = run.system not in {system for system, _ in names}
        name = names.setdefault((run.system, run.seed), run.system if first else f"{run.system}@{run.seed}")
        line = SheetLine(model=run.model, objective=run.system, seed=run.seed or 0, tokens="")
        known = others and found.lines[others[0][1]].model
        if others and known != run.model:
            raise UserError(f"{file}: model: {run.model!r}; other runs of {run.system} have {known!r}")
        found.lines[name], found.cache[name] = line, {"seed": run.seed}
        columns = found.columns.setdefault(name, {})
        for metric in run.logarithms:
            if not isinstance(run.metrics.get(metric), list):
                raise UserError(f"{file}: logarithms: {metric!r} is not allowed: metrics with a score for each item")
        for metric, scores in run.metrics.items():
            if metric in columns:
                raise UserError(
                    f"{file}: {name} has scores of {metric} already; runs that differ in the seed need a `seed`, and "
                    "other systems a name, as by SYSTEM=FILE"
                )
            columns[metric] = _column(f"{file}: metrics.{metric}", run, scores, metric in run.logarithms)
            _compare(f"{file}: metrics.{metric}", columns[metric], metric, found)
    return found


def _column(where: str, run: RunScores, scores: list[float] | float, is_logarithm: bool) -> ItemColumn | float:
    if not isinstance(scores, list):
        if run.seed is None:
            raise UserError(f"{where}: one number of a fixed model has no variance; give the score of each item, or a `seed`")
        return scores
    items = run.items or [f"{index:09}" for index in range(len(scores))]
    clusters = run.clusters or items
    if not scores or not len(scores) == len(items) == len(clusters):
        raise UserError(f"{where}: {len(scores)} scores, {len(items)} items, {len(clusters)} clusters; they must be as many")
    if len(set(items)) < len(items):
        raise UserError(f"{where}: two items have the same name; the names of `items` must differ")
    column = ItemColumn(scores, items, clusters, is_logarithm)
    if not np.isfinite(column.number):
        raise UserError(f"{where}: the exponential of the mean {column.mean:.4g} is too large; leave it out of `logarithms`")
    return column


def _compare(where: str, column: ItemColumn | float, metric: str, scores: ItemScores) -> None:
    """Raise UserError if another run has scores of other items."""
    others = ((name, one) for name, row in scores.columns.items() if isinstance(one := row.get(metric), ItemColumn))
    for name, other in others if isinstance(column, ItemColumn) else ():
        if other.is_logarithm != column.is_logarithm:
            raise UserError(f"{where}: is in `logarithms` of only one of this run and {name}; must be in both")
        if other.items != column.items:
            differ = sorted(set(other.items) ^ set(column.items))
            shown = ", ".join(differ[:EXAMPLES])
            raise UserError(
                f"{where}: {len(differ)} items are in only one of this run and {name}, such as {shown}; scores must have the "
                "same items"
            )
        if not np.array_equal(other.clusters, column.clusters):
            raise UserError(f"{where}: clusters: other than those of {name}; the same items must have the same clusters")


class OwnClaim(Expectation):
    """A claim about systems whose scores are given."""

    metric: str = Field(description="metric of the score files")
    left: str = Field(description="system that the statement describes")
    right: str | None = Field(None, description="system to compare with; without it, left itself is the effect")
    reported: float | None = Field(None, allow_inf_nan=False, description="the effect that the paper reports")

    @property
    def sides(self) -> dict[str, Side]:
        systems = {"left": self.left, "right": self.right}
        return {name: Side(runs=[system], metric=self.metric) for name, system in systems.items() if system is not None}

    @model_validator(mode="after")
    def _positive(self) -> Self:
        for name, value in {"than": self.than, "reported": self.reported}.items():
            if self.effect == "ratio" and value is not None and value <= 0:
                raise ValueError(f"`{name}` of a ratio must be positive, such as 0.9 for a fall of 10 %")
        return self


def check_comparable(claim: OwnClaim, comparison: Comparison, scores: ItemScores) -> None:
    """Raise UserError if the systems share no seed, or their scores are not of the same form or of a single item."""
    values = [value for value in comparison.values.values() if value]
    if len(values) == len(comparison.sides) and not comparison.seed_runs:
        of_sides = zip(comparison.sides.values(), values, strict=True)
        seeds = "; ".join(f"{side.runs[0]} has {', '.join(map(str, value.seeds))}" for side, value in of_sides)
        remedy = "systems are compared over the seeds that both have; SYSTEM@SEED=FILE gives a file another seed"
        raise UserError(f"no seed in common: {seeds}; {remedy}")
    columns = [scores.columns[run][claim.metric] for runs in comparison.seed_runs.values() for run in runs if run]
    lists = [one for one in columns if isinstance(one, ItemColumn)]
    if 0 < len(lists) < len(columns):
        raise UserError(f"{claim.metric}: some runs have one number and others a score for each item; all need the same form")
    if any(one.units < 2 for one in lists):
        raise UserError(f"{claim.metric}: one item or cluster has no variance; give two or more, or one number for each seed")
    for run in [run for runs in comparison.seed_runs.values() for run in runs if run and claim.effect == "ratio"]:
        _check_positive(run, claim.metric, scores)


def _check_positive(run: str, metric: str, scores: ItemScores) -> None:
    """Raise UserError if a metric is negative, or negative scores make it so on a resampled test set."""
    number, column, where = scores.number(run, metric) or 0.0, scores.columns[run][metric], ""
    resamples = scores.bootstrap(run, metric)
    if number >= 0 and resamples is not None and isinstance(column, ItemColumn) and column.scores.min() < 0:
        number, where = float(resamples.min()), " on a resampled test set"
    if number < 0:
        raise UserError(f"{metric}: {run} has {number:.4g}{where}; a ratio needs 0 or more: use `effect: difference`")
