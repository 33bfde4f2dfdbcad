"""Verdicts as Markdown: counts on top, then a table for each paper."""

from raretokens.reporting.claims.verdict import VERDICTS, Verdict, in_words
from raretokens.reporting.declarations.declared import Declarations

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
