"""A claim about systems whose scores are given, and which scores of two systems can be compared."""

from typing import Self

from pydantic import Field, model_validator

from raretokens.claims.comparison import Comparison
from raretokens.claims.expectation import Expectation, Side
from raretokens.claims.item_scores import ItemColumn, ItemScores
from raretokens.errors import UserError


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
        raise UserError(f"no seed in common: {seeds}; systems are compared over the seeds that both have")
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
