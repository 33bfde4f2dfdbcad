"""Verdicts as CSV and Markdown: every claim, their counts, and the few main ones."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from raretokens import csv_files
from raretokens.evidence.comparison import Effect
from raretokens.evidence.intervals import Interval
from raretokens.evidence.verdict import DECIDED, Outcome, Verdict
from raretokens.files import round_digits
from raretokens.papers.declarations import Declarations
from raretokens.report.effect_text import (
    EFFECT_COLUMNS,
    effect_text,
    few_seeds_text,
    named_intervals,
    number_text,
    seeds_text,
)

HEAD = "| verdict | claim | measured effect | reported effect | effect of | place |"
RULE = "|---|---|---|---|---|---|"
LEGEND = """\
An effect is the first run's metric divided by the second's (ratio), minus the second's (difference), or the metric (value).
It is the mean over seeds. Brackets contain 95 % intervals. The interval over seeds is Student's t interval of the paired effects
of three seeds or more. The interval over the test set is a bootstrap of its blocks, sentences or word pairs, the same for both
runs. With fewer than three seeds, the interval uses the largest seed variance of other runs of the same model and text (*pooled
seed variance*).
"""
MEANINGS = {
    Outcome.CONTRADICTED: "every interval lies on the other side of the threshold, or outside the margin of no change",
    Outcome.NOT_TESTABLE: "a precondition of the claim is not met by the runs",
    Outcome.NOT_RUN: "a run or a metric is missing",
    Outcome.INCONCLUSIVE: "an interval contains the threshold, or no seed variance is known",
    Outcome.REPRODUCED: "every interval lies on the side of the threshold of the claim, or inside its margin of no change",
}
OURS = "our interpretations, controls and experiments"


COLUMNS: dict[str, Callable[[Verdict], str]] = {
    "claim": lambda verdict: verdict.name,
    "paper": lambda verdict: verdict.claim.paper,
    "place": lambda verdict: verdict.claim.place,
    "statement": lambda verdict: verdict.claim.statement,
    "metric": lambda verdict: verdict.claim.left.metric,
    "verdict": lambda verdict: verdict.outcome,
    "reason": lambda verdict: verdict.reason,
    "left": lambda verdict: number_text(verdict.effect.left, 6),
    "right": lambda verdict: number_text(verdict.effect.right, 6),
    **{name: (lambda verdict, show=show: show(verdict.effect)) for name, show in EFFECT_COLUMNS.items()},
    "reported": lambda verdict: number_text(verdict.reported),
    "kind": lambda verdict: verdict.claim.effect,
    "seeds": lambda verdict: str(verdict.effect.seeds),
    "runs": lambda verdict: " / ".join(verdict.runs),
    "note": lambda verdict: verdict.claim.unreported or "",
}


def to_csv(verdicts: list[Verdict]) -> str:
    rows = ([show(verdict) for show in COLUMNS.values()] for verdict in verdicts)
    return csv_files.to_csv(rows, list(COLUMNS))


def read_csv(file: Path, declared: Declarations) -> dict[str, Verdict]:
    """The verdicts of a claims.csv on claims that are still declared, by name."""
    texts = ["claim", "verdict", "reason", "runs"]
    table = pd.read_csv(file, dtype=dict.fromkeys(texts, str), float_precision="round_trip").set_index(
        "claim", drop=False
    )
    table[texts] = table[texts].fillna("")
    return {name: _verdict(row, declared) for name, row in table.iterrows() if name in declared.claims}


def _verdict(row: pd.Series, declared: Declarations) -> Verdict:
    claim = declared.claims[row.claim]

    def number(key: str) -> float | None:
        return None if math.isnan(row[key]) else float(row[key])

    def interval(key: str) -> Interval | None:
        low, high = number(f"{key}_low"), number(f"{key}_high")
        return None if low is None or high is None else Interval(low, high)

    return Verdict(
        name=row.claim,
        claim=claim,
        outcome=Outcome(row.verdict),
        reason=row.reason,
        effect=Effect(
            kind=claim.effect,
            left=number("left"),
            right=number("right"),
            value=number("measured"),
            seed_interval=interval("seeds"),
            test_interval=interval("test"),
            seeds=int(row.seeds),
        ),
        reported=number("reported"),
        runs=tuple(filter(None, row.runs.split(" / "))),
    )


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    """What fails stands first, then what was left out."""
    meanings = [f"* *{outcome}*: {meaning}" for outcome, meaning in MEANINGS.items()]
    lines = ["# Conclusions of the papers and their verdicts", "", _counts(verdicts), "", LEGEND, *meanings]
    for paper in dict.fromkeys(verdict.claim.paper for verdict in verdicts):
        own = [one for kind in Outcome for one in verdicts if (one.claim.paper, one.outcome) == (paper, kind)]
        lines += ["", f"## {paper}", "", _counts(own), "", HEAD, RULE]
        lines += [_line(verdict, declared) for verdict in own]
    return "\n".join([*lines, ""])


def _counts(verdicts: list[Verdict]) -> str:
    return f"{len(verdicts)} claims; of the papers' own conclusions {in_words(verdicts)}."


def in_words(verdicts: list[Verdict]) -> str:
    """How many there are of each verdict, what fails and what is left out first; our own claims are counted apart."""
    parts = [[one for one in verdicts if one.claim.is_ours == ours] for ours in (False, True)]
    theirs, ours = (", ".join(_counted(part)) for part in parts)
    apart = f"; of {len(parts[1])} {OURS} {ours}" if parts[1] else ""
    return f"{theirs}{apart}"


def _counted(verdicts: list[Verdict]) -> Iterable[str]:
    counts = Counter(one.outcome for one in verdicts)
    few = Counter(one.outcome for one in verdicts if one.is_of_few_seeds)
    return (f"{counts[kind]} {kind}{f' ({few[kind]} of one seed or two)' if few[kind] else ''}" for kind in Outcome)


def _line(verdict: Verdict, declared: Declarations) -> str:
    claim = verdict.claim
    intervals = [
        f"{name} [{number_text(low)}, {number_text(high)}]"
        for name, (low, high) in named_intervals(verdict.effect).items()
    ]
    cells = [
        "<br>".join(filter(None, [f"**{verdict.outcome}**", few_seeds_text(verdict)])),
        f"{claim.statement}{f' (*{verdict.reason}*)' if verdict.reason else ''}",
        "<br>".join(filter(None, [number_text(verdict.effect.value), *intervals])),
        number_text(verdict.reported) or f"*{claim.unreported or ''}*",
        f"{_effect_name(verdict, declared)}{_runs(verdict)}",
        claim.place,
    ]
    return f"| {' | '.join(cells)} |"


def _runs(verdict: Verdict) -> str:
    return f": {' / '.join(verdict.runs)}{seeds_text(verdict.effect)}" if verdict.runs else ""


def _effect_name(verdict: Verdict, declared: Declarations) -> str:
    kind, metric = verdict.claim.effect, declared.metric(verdict.claim.left.metric)
    unit = f" ({metric.unit})" if kind == "difference" and metric.unit not in metric.title else ""
    return f"{kind} of {metric.title}{unit}"


def main_claims(verdicts: list[Verdict]) -> str:
    """Return the main claims as CSV, a line each."""
    rows = [_main_columns(verdict) for verdict in verdicts if verdict.claim.main]
    return csv_files.to_csv(rows, ["conclusion", "paper", "reported", "measured", "95 % interval", "verdict"])


def headline(verdicts: list[Verdict]) -> dict[str, float]:
    """Short name -> effect, of those that were measured: few enough for a line of `dvc exp show`."""
    return {
        one.claim.main: round_digits(one.effect.value, 4)
        for one in verdicts
        if one.claim.main and one.effect.value is not None
    }


def _main_columns(verdict: Verdict) -> dict[str, str]:
    claim, kind = verdict.claim, verdict.claim.effect
    few = f", {few_seeds_text(verdict)}" if verdict.is_of_few_seeds else ""
    reason = "" if verdict.outcome in DECIDED or not verdict.reason else f": {verdict.reason}"
    intervals = [
        f"{effect_text(kind, low)} to {effect_text(kind, high)} ({name})"
        for name, (low, high) in named_intervals(verdict.effect).items()
    ]
    return {
        "conclusion": claim.statement,
        "paper": f"{claim.paper} {claim.place}",
        "reported": effect_text(kind, verdict.reported),
        "measured": effect_text(kind, verdict.effect.value),
        "95 % interval": next(iter(intervals), ""),  # over seeds, else over the test set
        "verdict": f"{verdict.outcome}{few}{reason}",
    }


def verdict_counts(verdicts: list[Verdict]) -> str:
    """Return verdict counts as CSV, a line for each paper's conclusions, one for our own claims and one for all."""
    papers = [OURS if verdict.claim.is_ours else verdict.claim.paper for verdict in verdicts]
    kinds = [str(verdict.outcome) for verdict in verdicts]
    table = pd.crosstab(papers, kinds, rownames=["paper"], colnames=[None], margins=True, margins_name="all")
    ordered = table.reindex(
        index=[*sorted(dict.fromkeys(papers), key=OURS.__eq__), "all"],
        columns=[*map(str, Outcome), "all"],
        fill_value=0,
    )
    return ordered.rename_axis("paper").rename(columns={"all": "claims"}).to_csv(lineterminator="\n")
