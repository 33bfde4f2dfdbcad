"""The command claims: judge the claims of any file by the scores of any systems."""

import argparse
import json
import sys
from pathlib import Path

from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import csv_files
from raretokens.errors import UserError
from raretokens.evidence.comparison import Comparison
from raretokens.evidence.item_scores import ItemScores, gather
from raretokens.evidence.verdict import Verdict, verdict_on, with_q
from raretokens.papers.claim import Expectation, Side
from raretokens.report.claims import COLUMNS, size_text
from raretokens.report.effect_text import effect_text, few_seeds_text, interval_text, number_text
from raretokens.tools.cli import argument, command
from raretokens.tools.score_formats import read
from raretokens.yaml_files import checked, read_yaml

# Columns of claims.csv that only claims of papers have.
OF_PAPERS = ("place", "role", "note", "reported_left", "reported_right", "cv_star_left", "cv_star_right", "sign")
HEAD = ("claim", "measured", "95 % interval", "q", "reported", "size", "seeds", "verdict")
WIDTH = 150


class OwnClaim(Expectation):
    """A claim about systems whose scores are given."""

    metric: str = Field(description="metric of the score files")
    left: str = Field(description="system that the statement describes")
    right: str | None = Field(None, description="system to compare with; without it, left itself is the effect")
    reported: float | None = Field(None, description="the effect that the paper reports")

    @property
    def sides(self) -> dict[str, Side]:
        systems = {"left": self.left, "right": self.right}
        return {name: Side(runs=[system], metric=self.metric) for name, system in systems.items() if system is not None}


def judge(file: Path, scores: ItemScores) -> list[Verdict[OwnClaim]]:
    """Return the verdicts on all claims of a file.

    Raises:
        UserError: if the file is not valid, or names a system or metric without scores.
    """
    claims = checked(dict[str, OwnClaim], read_yaml(file) or {}, file)
    if not claims:
        raise UserError(f"{file}: no claims")
    return with_q([_judge(name, claim.replaced(paper=claim.paper or file.stem), scores, file) for name, claim in claims.items()])


def _judge(name: str, claim: OwnClaim, scores: ItemScores, file: Path) -> Verdict[OwnClaim]:
    try:
        sides = {side: scores.side(one.runs[0], one.metric) for side, one in claim.sides.items()}
    except UserError as error:
        raise UserError(f"{file}: {name}: {error}") from None
    return verdict_on(name, claim, Comparison(claim.effect, sides, scores), claim.reported)


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
    rows = [{name: show(one) for name, show in COLUMNS.items() if name not in OF_PAPERS} for one in verdicts]
    if arguments.json:
        print(json.dumps([_numbers(row) for row in rows], indent=1, ensure_ascii=False))
    elif arguments.csv:
        print(csv_files.to_csv(rows, list(rows[0])), end="")
    else:
        _show(verdicts)


def _numbers(row: dict[str, str]) -> dict[str, str | float | None]:
    """Return a row of the CSV file with numbers as numbers, and null for empty cells."""
    texts = ("claim", "paper", "statement", "metric", "verdict", "size", "reason", "kind", "runs")
    return {name: (text or None) if name in texts or not text else float(text) for name, text in row.items()}


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
