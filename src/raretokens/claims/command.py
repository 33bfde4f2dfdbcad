"""The command claims: compare two systems, or judge the claims of any file, by the scores of any systems."""

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

from raretokens import csv_files
from raretokens.claims.compare_systems import FileRun, Matched, MetricComparison, better, compare
from raretokens.claims.comparison import Comparison
from raretokens.claims.effect_text import (
    DIGITS,
    SIDE_DIGITS,
    VERDICT_COLUMNS,
    effect_text,
    few_seeds_text,
    interval_text,
    number_text,
    size_text,
)
from raretokens.claims.item_scores import ItemScores, OwnClaim, check_comparable, gather
from raretokens.claims.score_files import read_all, split_argument
from raretokens.claims.verdict import Verdict, verdict_on, with_q
from raretokens.cli import argument, command
from raretokens.errors import UserError
from raretokens.files import round_digits
from raretokens.yaml_files import checked, read_yaml

SCORE_FILES = (".json", ".jsonl", ".eval", ".csv", ".tsv")
CLAIM_HEAD = ("claim", "measured", "95 % interval", "q", "reported", "size", "seeds", "verdict")
SYSTEMS_HEAD = ("metric", "better", "A", "B", "B - A", "95 % interval", "p", "q", "detectable", "items", "seeds", "verdict")
# Columns that narrow terminals leave out, the first group first
LESS_OF_CLAIMS = (("size",), ("seeds",), ("reported",))
LESS_OF_SYSTEMS = (("p",), ("A", "B"), ("items",), ("seeds",), ("detectable",), ("better",))
LEAST_NAME = 12  # width to which the name of a metric or claim folds
SPACES = 3  # between two columns
UNLIMITED = 10_000  # width of a file or pipe
Cell = str | int | float | None


@command(
    argument("file", help="YAML file of claims; a score file instead compares two systems on all their metrics"),
    argument(
        "scores",
        nargs="*",
        help="score files or folders: JSON, CSV, samples_*.jsonl of lm-evaluation-harness, .eval or .json logs of Inspect; "
        "SYSTEM=FILE or SYSTEM@SEED=FILE names the system and the seed of a file or folder",
    ),
    argument("--json", action="store_true", help="print JSON instead of a table"),
    argument("--csv", action="store_true", help="print CSV instead of a table"),
)
def judge_claims(arguments: argparse.Namespace) -> None:
    """Compare two systems by score files, or judge claims: an interval over seeds and items, q and a verdict for each."""
    if arguments.json and arguments.csv:
        raise UserError("--json and --csv: give one of them")
    if _names_scores(arguments.file):
        matched, found = compare(_read([arguments.file, *arguments.scores]))
        if arguments.json or arguments.csv:
            _print_rows([_cells(one, matched) for one in found], arguments.json)
        else:
            _show_systems(matched, found)
        return
    if not arguments.scores:
        raise UserError(f"{arguments.file}: no score files; give them after the file of claims")
    verdicts = judge(Path(arguments.file), gather(_read(arguments.scores)))
    rows = [{name: show(one) for name, show in VERDICT_COLUMNS.items()} for one in verdicts]
    if arguments.json or arguments.csv:
        _print_rows([_numbers(row) for row in rows] if arguments.json else rows, arguments.json)
    else:
        _show_verdicts(verdicts)


def _read(arguments: Sequence[str]) -> list[FileRun]:
    """Return the runs of the arguments, and print what is left out to stderr, so that JSON and CSV have rows alone."""
    runs, notes = read_all(arguments)
    for note in notes:
        print(note, file=sys.stderr)
    return runs


def _names_scores(argument: str) -> bool:
    """Whether an argument of the command names scores, and not a file of claims."""
    label, path = split_argument(argument)
    return bool(label) or Path(path).suffix.lower() in SCORE_FILES or Path(path).is_dir()


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


def _print_rows(rows: Sequence[Mapping[str, Cell]], as_json: bool) -> None:
    """Print rows as JSON, or as CSV, in which None is an empty cell."""
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    texts = [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in rows]
    print(csv_files.to_csv(texts, list(rows[0])), end="")


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]], less: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column can fold, and whose others are whole.

    A terminal that is too narrow has fewer columns: each group of `less` is left out in turn. If the rest is too wide as well,
    each row is a block of lines.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    least = min(widths[0], LEAST_NAME)
    for number in range(len(less) + 1):
        left_out = [name for group in less[:number] for name in group]
        kept = [place for place, name in enumerate(head) if name not in left_out]
        others = 1 + SPACES + sum(widths[place] + SPACES for place in kept[1:])
        if others + least <= console.width:
            table = Table(*(Column(head[place], no_wrap=place > 0, overflow="fold") for place in kept), box=SIMPLE_HEAD)
            for row in rows:
                table.add_row(_folded(row[0], console.width - others), *(row[place] for place in kept[1:]))
            console.print(table)
            if left_out:
                console.print(f"left out at this width: {', '.join(left_out)}; --csv has all columns\n")
            return
    title_width = max(map(len, head))
    for row in rows:
        print(f"\n{row[0]}")
        for title, cell in list(zip(head, row, strict=True))[1:]:
            if cell:
                print(f"  {title:<{title_width}}  {cell}")
    print()


def _folded(name: str, width: int) -> str:
    """Break a name after its separators into lines of this width, as far as it has separators."""
    lines = [""]
    for part in re.split(r"(?<=[.,/_-])", name):
        if len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(filter(None, lines))


def _finite(number: float | None) -> float | None:
    """Return the number, or None for Infinity and NaN, which JSON does not have."""
    return number if number is not None and math.isfinite(number) else None


# Verdicts


def _numbers(row: dict[str, str]) -> dict[str, Cell]:
    """Return a row of the CSV file with numbers as numbers, and null for empty cells."""
    texts = ("claim", "paper", "statement", "metric", "verdict", "extent", "size", "reason", "kind", "runs")
    return {name: (text or None) if name in texts or not text else _finite(float(text)) for name, text in row.items()}


def _show_verdicts(verdicts: list[Verdict[OwnClaim]]) -> None:
    rows = []
    for one in verdicts:
        kind = one.claim.effect
        rows.append(
            (
                one.name,
                effect_text(kind, one.effect.value),
                interval_text(kind, one.effect.main_interval),
                number_text(one.q, 2),
                effect_text(kind, one.reported),
                size_text(one) if one.fraction_interval else "",
                few_seeds_text(one) or str(one.effect.seeds or "fixed"),
                str(one.outcome),
            )
        )
    _print_table(CLAIM_HEAD, rows, LESS_OF_CLAIMS)
    for one in verdicts:
        if one.reason:
            print(f"{one.name}: {one.reason}")


# Two systems


def _cells(one: MetricComparison, matched: Matched) -> dict[str, Cell]:
    effect = one.verdict.effect
    low, high = one.interval or (None, None)
    return {
        "metric": one.metric,
        "better": better(one.metric),
        "a": matched.systems[0],
        "b": matched.systems[1],
        "value_a": _rounded(effect.right, SIDE_DIGITS),
        "value_b": _rounded(effect.left, SIDE_DIGITS),
        "difference": _rounded(effect.value),
        "low": _rounded(low),
        "high": _rounded(high),
        "p": _rounded(one.verdict.p, 2),
        "q": _rounded(one.verdict.q, 2),
        "detectable": _rounded(one.detectable, 3),
        "items": one.items,
        "dropped": one.dropped,
        "seeds": effect.seeds,
        "verdict": one.conclusion,
        "note": one.note,
    }


def _rounded(number: float | None, digits: int = DIGITS) -> float | None:
    """Return the number with so many significant digits, or None where `_finite` is None."""
    finite = _finite(number)
    return None if finite is None else round_digits(finite, digits)


def _show_systems(matched: Matched, found: list[MetricComparison]) -> None:
    a, b = matched.systems
    print(f"A: {a}\nB: {b}")
    rows = []
    for one in found:
        effect = one.verdict.effect
        rows.append(
            (
                one.metric,
                better(one.metric),
                number_text(effect.right),
                number_text(effect.left),
                effect_text("difference", effect.value),
                interval_text("difference", one.interval),
                number_text(one.verdict.p, 2),
                number_text(one.verdict.q, 2),
                number_text(one.detectable, 2),
                "" if one.items is None else str(one.items),
                str(effect.seeds or "fixed"),
                one.conclusion,
            )
        )
    _print_table(SYSTEMS_HEAD, rows, LESS_OF_SYSTEMS)
    notes = [f"{one.metric}: {one.note}" for one in found if one.note]
    notes += [f"only {system} has {', '.join(names)}" for system, names in matched.only_one.items() if names]
    if notes:
        print(*notes, sep="\n")
