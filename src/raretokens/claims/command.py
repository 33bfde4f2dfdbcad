"""The command claims: judge the claims of any file by the scores of any systems."""

import argparse
import json
import math
import sys
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from raretokens import csv_files
from raretokens.claims.compare_systems import is_score_file, show_comparison
from raretokens.claims.comparison import Comparison
from raretokens.claims.effect_text import (
    VERDICT_COLUMNS,
    effect_text,
    few_seeds_text,
    interval_text,
    number_text,
    size_text,
)
from raretokens.claims.item_scores import ItemScores, OwnClaim, check_comparable, gather
from raretokens.claims.score_formats import read
from raretokens.claims.verdict import Verdict, verdict_on, with_q
from raretokens.cli import argument, command
from raretokens.errors import UserError
from raretokens.yaml_files import checked, read_yaml

HEAD = ("claim", "measured", "95 % interval", "q", "reported", "size", "seeds", "verdict")
WIDTH = 150


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
        check_comparable(claim, comparison, scores)
    except UserError as error:
        raise UserError(f"{file}: {name}: {error}") from None
    return verdict_on(name, claim, comparison, claim.reported)


@command(
    argument("file", help="YAML file of claims; a score file instead compares two systems on all their metrics"),
    argument(
        "scores",
        nargs="*",
        help="score files: JSON, CSV, samples_*.jsonl of lm-evaluation-harness, .eval or .json logs of Inspect; "
        "SYSTEM=FILE or SYSTEM@SEED=FILE names the system and the seed of a file",
    ),
    argument("--json", action="store_true", help="print JSON instead of a table"),
    argument("--csv", action="store_true", help="print CSV instead of a table"),
)
def judge_claims(arguments: argparse.Namespace) -> None:
    """Compare two systems by score files, or judge claims: an interval over seeds and items, q and a verdict for each."""
    if arguments.json and arguments.csv:
        raise UserError("--json and --csv: give one of them")
    if is_score_file(arguments.file):
        return show_comparison([arguments.file, *arguments.scores], as_json=arguments.json, as_csv=arguments.csv)
    if not arguments.scores:
        raise UserError(f"{arguments.file}: no score files; give them after the file of claims")
    verdicts = judge(Path(arguments.file), gather(run for path in arguments.scores for run in read(path)))
    rows = [{name: show(one) for name, show in VERDICT_COLUMNS.items()} for one in verdicts]
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
