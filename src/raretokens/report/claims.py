"""Verdicts as Markdown: counts on top, then a table for each paper."""

import pandas as pd

from raretokens.evidence.verdict import DECIDED, VERDICTS, Verdict, in_words
from raretokens.papers.declarations import Declarations

HEAD = "| verdict | claim | effect here | in print | effect of | where |"
RULE = "|---|---|---|---|---|---|"
LEGEND = """\
An effect is the first run's metric over the second's (ratio), less it (difference), or the metric itself (value): the mean over
seeds. In brackets 95 % intervals: over seeds (Student's t of the paired effects, three seeds or more), and over the test set of
these runs (blocks of text, sentences or word pairs drawn again, the same for both runs). *One seed* and *two seeds*: how much
seeds differ is taken from the row of the same model and text whose seeds differ most (*lent seeds*).
"""
MEANINGS = [f"* *{name}*: {meaning}" for name, meaning in VERDICTS.items()]


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    """What fails stands first, then what was left out."""
    lines = ["# What the papers conclude, and whether it holds here", "", _counts(verdicts), "", LEGEND, *MEANINGS]
    for paper in dict.fromkeys(verdict.paper for verdict in verdicts):
        own = [
            verdict for kind in VERDICTS for verdict in verdicts if (verdict.paper, verdict.verdict) == (paper, kind)
        ]
        lines += ["", f"## {paper}", "", _counts(own), "", HEAD, RULE]
        lines += [_line(verdict, declared) for verdict in own]
    return "\n".join([*lines, ""])


def _counts(verdicts: list[Verdict]) -> str:
    return f"{len(verdicts)} claims; of the papers' own conclusions {in_words(verdicts)}."


def _line(verdict: Verdict, declared: Declarations) -> str:
    intervals = [
        _range(verdict.over_seeds, verdict.seeds_low, verdict.seeds_high),
        _range("test set", verdict.test_low, verdict.test_high),
    ]
    cells = [
        "<br>".join(filter(None, [f"**{verdict.verdict}**", verdict.few_seeds])),
        f"{verdict.statement}{f' (*{verdict.reason}*)' if verdict.reason else ''}",
        "<br>".join(filter(None, [verdict.ours, *intervals])),
        verdict.printed or f"*{verdict.note}*",
        f"{_effect(verdict, declared)}{_runs(verdict)}",
        verdict.place,
    ]
    return f"| {' | '.join(cells)} |"


def _range(name: str, low: str, high: str) -> str:
    return f"{name} [{low}, {high}]" if low else ""


def _runs(verdict: Verdict) -> str:
    seeds = (
        f", {verdict.seeds} seed{'s' if verdict.seeds != '1' else ''}" if verdict.ours and verdict.seeds != "0" else ""
    )
    return f": {verdict.runs}{seeds}" if verdict.runs else ""


def _effect(verdict: Verdict, declared: Declarations) -> str:
    metric = declared.metric(verdict.metric)
    unit = f" ({metric.unit})" if verdict.kind == "difference" and metric.unit not in metric.title else ""
    return f"{verdict.kind} of {metric.title}{unit}"


ORDER = ["conclusion", "paper", "in print", "here", "95 % interval", "verdict"]


def main_claims(declared: Declarations, verdicts: list[Verdict]) -> str:
    """CSV: a line for each claim that is declared as a main one."""
    rows = [_row(verdict) for verdict in verdicts if declared.claims[verdict.claim].main]
    return pd.DataFrame(rows, columns=ORDER).to_csv(index=False, lineterminator="\n")


def headline(declared: Declarations, verdicts: list[Verdict]) -> dict[str, float]:
    """Short name -> effect, of those that were measured: few enough for a line of `dvc exp show`."""
    mains = {verdict: declared.claims[verdict.claim].main for verdict in verdicts}
    return {name: float(f"{float(verdict.ours):.4g}") for verdict, name in mains.items() if name and verdict.ours}


def _row(verdict: Verdict) -> dict[str, str]:
    few = f", {verdict.few_seeds}" if verdict.few_seeds else ""
    reason = "" if verdict.verdict in DECIDED or not verdict.reason else f": {verdict.reason}"
    return {
        "conclusion": verdict.statement,
        "paper": f"{verdict.paper} {verdict.place}",
        "in print": effect(verdict.kind, verdict.printed),
        "here": effect(verdict.kind, verdict.ours),
        "95 % interval": _interval(verdict),
        "verdict": f"{verdict.verdict}{few}{reason}",
    }


def _interval(verdict: Verdict) -> str:
    """Over seeds where there is one, else over the test set."""
    for low, high, over in (
        (verdict.seeds_low, verdict.seeds_high, verdict.over_seeds),
        (verdict.test_low, verdict.test_high, "test set"),
    ):
        if low:
            return f"{effect(verdict.kind, low)} to {effect(verdict.kind, high)} ({over})"
    return ""


def effect(kind: str, number: str) -> str:
    """A ratio as x 0.5, a difference with its sign; empty where there is none."""
    if not number:
        return ""
    value = float(number)
    if kind == "ratio" and 0.9 < value < 1.1:
        return f"x {value:.4g}"  # a small change is a few percent
    return f"x {value:.3g}" if kind == "ratio" else f"{value:+.3g}" if kind == "difference" else f"{value:.4g}"


OURS = "readings, controls and experiments of ours"


def verdict_counts(verdicts: list[Verdict]) -> str:
    """CSV: a line for each paper's conclusions, for what is of ours, and for all; what fails or was left out stands first."""
    papers = [OURS if verdict.is_ours else verdict.paper for verdict in verdicts]
    kinds = [verdict.verdict for verdict in verdicts]
    table = pd.crosstab(papers, kinds, rownames=["paper"], colnames=[None], margins=True, margins_name="all")
    ordered = table.reindex(
        index=[*sorted(dict.fromkeys(papers), key=OURS.__eq__), "all"], columns=[*VERDICTS, "all"], fill_value=0
    )
    return ordered.rename_axis("paper").rename(columns={"all": "claims"}).to_csv(lineterminator="\n")
