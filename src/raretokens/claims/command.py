"""The command claims: judge the claims of any file by the scores of any systems."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import csv_files
from raretokens.claims.columns import COLUMNS, size_text
from raretokens.claims.comparison import Comparison
from raretokens.claims.effect_text import effect_text, few_seeds_text, interval_text, number_text
from raretokens.claims.expectation import Expectation, Side
from raretokens.claims.item_scores import Column, ItemScores, gather
from raretokens.claims.score_formats import read
from raretokens.claims.verdict import Verdict, verdict_on, with_q
from raretokens.cli import argument, command
from raretokens.errors import UserError
from raretokens.yaml_files import checked, read_yaml

HEAD = ("claim", "measured", "95 % interval", "q", "reported", "size", "seeds", "verdict")
WIDTH = 150


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


def judge(file: Path, scores: ItemScores) -> list[Verdict[OwnClaim]]:
    """Return the verdicts on all claims of a file.

    Raises:
        UserError: if the file is not valid, or names a system or metric without scores.
    """
    tree = read_yaml(file) or {}
    if not isinstance(tree, dict):
        raise UserError(f"{file}: is a list or a value; should be claims by name, each with its keys")
    claims = checked(dict[str, OwnClaim], tree, file)
    if not claims:
        raise UserError(f"{file}: no claims")
    found = [_judge(name, claim.replaced(paper=claim.paper or file.stem), scores, file) for name, claim in claims.items()]
    return with_q(found, lambda claim: claim.paper)


def _judge(name: str, claim: OwnClaim, scores: ItemScores, file: Path) -> Verdict[OwnClaim]:
    try:
        sides = {side: scores.side(one.runs[0], one.metric) for side, one in claim.sides.items()}
        comparison = Comparison(claim.effect, sides, scores)
        _check_comparable(claim, comparison, scores)
    except UserError as error:
        raise UserError(f"{file}: {name}: {error}") from None
    return verdict_on(name, claim, comparison, claim.reported)


def _check_comparable(claim: OwnClaim, comparison: Comparison, scores: ItemScores) -> None:
    """Raise UserError if the systems share no seed, or their scores are not of the same form or of a single item."""
    values = [value for value in comparison.values.values() if value]
    if len(values) == len(comparison.sides) and not comparison.seed_runs:
        of_sides = zip(comparison.sides.values(), values, strict=True)
        seeds = "; ".join(f"{side.runs[0]} has {', '.join(map(str, value.seeds))}" for side, value in of_sides)
        raise UserError(f"no seed in common: {seeds}; systems are compared over the seeds that both have")
    columns = [scores.columns[run][claim.metric] for runs in comparison.seed_runs.values() for run in runs if run]
    lists = [one for one in columns if isinstance(one, Column)]
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
    if number >= 0 and resamples is not None and isinstance(column, Column) and column.scores.min() < 0:
        number, where = float(resamples.min()), " on a resampled test set"
    if number < 0:
        raise UserError(f"{metric}: {run} has {number:.4g}{where}; a ratio needs 0 or more: use `effect: difference`")


@command(
    argument("file", type=Path, help="YAML file of claims"),
    argument(
        "scores",
        nargs="+",
        help="score files: JSON, samples_*.jsonl of lm-evaluation-harness, .eval or .json logs of Inspect; "
        "SYSTEM=FILE or SYSTEM@SEED=FILE names the system and the seed of a file",
    ),
    argument("--json", action="store_true", help="print JSON instead of a table"),
    argument("--csv", action="store_true", help="print CSV instead of a table"),
)
def judge_claims(arguments: argparse.Namespace) -> None:
    """Judge claims by score files: an interval over seeds and test items, q and a verdict for each claim."""
    if arguments.json and arguments.csv:
        raise UserError("--json and --csv: give one of them")
    verdicts = judge(arguments.file, gather(run for path in arguments.scores for run in read(path)))
    rows = [{name: show(one) for name, show in COLUMNS.items()} for one in verdicts]
    if arguments.json:
        print(json.dumps([_numbers(row) for row in rows], indent=1, ensure_ascii=False))
    elif arguments.csv:
        print(csv_files.to_csv(rows, list(rows[0])), end="")
    else:
        _show(verdicts)


def _numbers(row: dict[str, str]) -> dict[str, str | float | None]:
    """Return a row of the CSV file with numbers as numbers, and null for empty cells."""
    texts = ("claim", "paper", "statement", "metric", "verdict", "extent", "size", "reason", "kind", "runs")
    return {name: (text or None) if name in texts or not text else _finite(float(text)) for name, text in row.items()}


def _finite(number: float) -> float | None:
    """Return the number, or null for Infinity and NaN, which JSON does not have."""
    return number if math.isfinite(number) else None


def _show(verdicts: list[Verdict[OwnClaim]]) -> None:
    table = Table(*HEAD, box=SIMPLE_HEAD)
    for one in verdicts:
        kind = one.claim.effect
        table.add_row(
            one.name,
            effect_text(kind, one.effect.value),
            interval_text(kind, one.effect.main_interval),
            number_text(one.q, 2),
            effect_text(kind, one.reported),
            size_text(one) if one.fraction_interval else "",
            few_seeds_text(one) or str(one.effect.seeds or "fixed"),
            str(one.outcome),
        )
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(table)
    for one in verdicts:
        if one.reason:
            print(f"{one.name}: {one.reason}")
