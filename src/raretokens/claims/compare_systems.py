"""Two systems compared on every metric that both have, by their score files and without a file of claims."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq

from raretokens import csv_files
from raretokens.claims.comparison import Comparison
from raretokens.claims.effect_text import DIGITS, effect_text, interval_text, number_text
from raretokens.claims.intervals import LEVEL, Interval
from raretokens.claims.item_scores import ItemColumn, OwnClaim, check_comparable
from raretokens.claims.matched_items import FileRun, Matched, match
from raretokens.claims.metric_direction import better
from raretokens.claims.score_formats import read, split_argument
from raretokens.claims.verdict import HIGHEST_Q, UNCHANGED, Outcome, Verdict, verdict_on, with_q
from raretokens.files import round_digits

SCORE_FILES = (".json", ".jsonl", ".eval", ".csv")
POWER = 0.8  # probability to detect the smallest detectable difference
VERDICTS = {Outcome.REPRODUCED: "B is higher", Outcome.CONTRADICTED: "B is lower"}
NO_DIFFERENCE = "no difference shown"
HEAD = ("metric", "better", "A", "B", "B - A", "95 % interval", "p", "q", "detectable", "items", "seeds", "verdict")
VALUE_DIGITS, WIDTH = 6, 150
Cell = str | int | float | None


@dataclass(frozen=True)
class MetricComparison:
    """The difference B - A of a metric."""

    metric: str
    verdict: Verdict[OwnClaim]  # on the claim that B is higher
    interval: Interval | None  # of seeds and items; of items alone where the variance between seeds is unknown
    detectable: float | None  # the true difference that is shown with probability POWER; None if none is, or it is unknown
    items: int | None  # None for a metric of the whole test set
    dropped: int  # items that not all runs have
    unshared: tuple[int, ...]  # seeds that only one of the systems has

    @property
    def conclusion(self) -> str:
        return VERDICTS.get(self.verdict.outcome, NO_DIFFERENCE)

    @property
    def note(self) -> str:
        """What limits the result, or an empty text."""
        verdict, notes = self.verdict, []
        if self.dropped:
            notes.append(f"{self.dropped} items are not in all runs and are left out")
        if self.unshared:
            notes.append(f"seeds of one system only do not count: {', '.join(map(str, self.unshared))}")
        if verdict.outcome == Outcome.NOT_TESTABLE or (verdict.outcome == Outcome.INCONCLUSIVE and verdict.p is None):
            notes.append(verdict.reason)
        if self.interval and verdict.effect.interval is None:
            notes.append("the interval is that of the items alone")
        if verdict.outcome in VERDICTS and verdict.q is not None and verdict.q > HIGHEST_Q:
            notes.append(f"q is above {HIGHEST_Q}, so this can be a chance finding among the metrics")
        return "; ".join(notes)


def is_score_file(argument: str) -> bool:
    """Whether an argument of the command names scores, and not a file of claims."""
    label, path = split_argument(argument)
    return bool(label) or Path(path).suffix.lower() in SCORE_FILES or Path(path).is_dir()


def compare(runs: Sequence[FileRun]) -> tuple[Matched, list[MetricComparison]]:
    """Return the difference of two systems, for each metric that both have.

    Raises:
        UserError: if there are not two systems, or if their scores cannot be compared.
    """
    matched = match(runs)
    comparisons = {metric: _comparison(metric, matched) for metric in matched.metrics}
    verdicts = [verdict_on(metric, claim, one, None) for metric, (claim, one) in comparisons.items()]
    return matched, [
        _of_metric(verdict, comparisons[verdict.name][1], matched) for verdict in with_q(verdicts, lambda _: "common metrics")
    ]


def _comparison(metric: str, matched: Matched) -> tuple[OwnClaim, Comparison]:
    a, b = matched.systems
    claim = OwnClaim(statement="B is higher", metric=metric, left=b, right=a, effect="difference", expect="higher")
    sides = {side: matched.scores.side(one.runs[0], metric) for side, one in claim.sides.items()}
    comparison = Comparison(claim.effect, sides, matched.scores)
    check_comparable(claim, comparison, matched.scores)
    return claim, comparison


def _of_metric(verdict: Verdict[OwnClaim], comparison: Comparison, matched: Matched) -> MetricComparison:
    metric = verdict.name
    columns = [row[metric] for row in matched.scores.columns.values() if metric in row]
    items = next((len(one.items) for one in columns if isinstance(one, ItemColumn)), None)
    seeds = [set(value.seeds) for value in comparison.values.values() if value]
    has_width = verdict.reason != UNCHANGED and not comparison.lacks_variance
    return MetricComparison(
        metric=metric,
        verdict=verdict,
        interval=verdict.effect.main_interval if has_width else None,
        detectable=detectable_difference(comparison),
        items=items,
        dropped=matched.dropped[metric],
        unshared=() if {None} in seeds else tuple(sorted(set.symmetric_difference(*seeds))),
    )


def detectable_difference(comparison: Comparison) -> float | None:
    """Return the true difference whose interval excludes 0 with probability POWER, with as many seeds and items.

    Return None if no variance is known, or if it is zero.
    """
    seeds = len(comparison.seed_effects)
    if comparison.posterior is None or comparison.lacks_variance or comparison.power(0.0, 0.0, seeds) is None:
        return None

    def excess(difference: float) -> float:
        return (comparison.power(difference, 0.0, seeds) or 0.0) - POWER

    high = comparison.posterior.reach(LEVEL)
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, rtol=1e-6))


def show_comparison(arguments: Sequence[str], as_json: bool, as_csv: bool) -> None:
    """Print the comparison of two systems as a table, as JSON or as CSV. Notes follow the table."""
    matched, found = compare([run for argument in arguments for run in read(argument)])
    rows = [_cells(one, matched) for one in found]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    elif as_csv:
        print(csv_files.to_csv([{name: _text(cell) for name, cell in row.items()} for row in rows], list(rows[0])), end="")
    else:
        _show(matched, found)


def _text(cell: Cell) -> str:
    return "" if cell is None else str(cell)


def _rounded(number: float | None, digits: int = DIGITS) -> float | None:
    """Return the number with so many significant digits; None also for Infinity and NaN, which JSON does not have."""
    return None if number is None or not math.isfinite(number) else round_digits(number, digits)


def _cells(one: MetricComparison, matched: Matched) -> dict[str, Cell]:
    effect = one.verdict.effect
    low, high = one.interval or (None, None)
    return {
        "metric": one.metric,
        "better": better(one.metric),
        "a": matched.systems[0],
        "b": matched.systems[1],
        "value_a": _rounded(effect.right, VALUE_DIGITS),
        "value_b": _rounded(effect.left, VALUE_DIGITS),
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


def _show(matched: Matched, found: list[MetricComparison]) -> None:
    a, b = matched.systems
    print(f"A: {a}\nB: {b}")
    table = Table(*HEAD, box=SIMPLE_HEAD)
    for one in found:
        effect = one.verdict.effect
        table.add_row(
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
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(table)
    notes = [f"{one.metric}: {one.note}" for one in found if one.note]
    notes += [f"only {system} has {', '.join(names)}" for system, names in matched.only_one.items() if names]
    if notes:
        print(*notes, sep="\n")
