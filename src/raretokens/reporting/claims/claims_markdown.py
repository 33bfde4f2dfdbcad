"""Verdicts as Markdown: counts on top, then a table for each paper."""

from collections import Counter

from raretokens.reporting.claims.verdict import VERDICTS, Verdict
from raretokens.reporting.declarations.declared import Declarations

HEAD = "| claim | where | verdict | effect here | in print | effect | runs | seeds |"
RULE = "|---|---|---|---|---|---|---|---|"
LEGEND = """\
An effect is the first run's metric over the second's (ratio), less it (difference), or the metric itself (value); in
brackets its range over seeds. *Undecided*: the seeds do not agree, or one seed's effect is within what the metric may
move from machine to machine. One seed says nothing about chance."""


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    lines = ["# What the papers conclude, and whether it holds here", "", _summary(verdicts), "", LEGEND]
    for paper in dict.fromkeys(verdict.paper for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.paper == paper]
        lines += ["", f"## {paper}", "", _summary(own), "", HEAD, RULE]
        lines += [_line(verdict, declared) for verdict in own]
    return "\n".join([*lines, ""])


def _summary(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict in counts)
    return f"{len(verdicts)} claims: {words}."


def _line(verdict: Verdict, declared: Declarations) -> str:
    several, one = verdict.seeds not in ("0", "1"), verdict.seeds == "1"
    cells = [
        verdict.statement,
        verdict.place,
        f"**{verdict.verdict}**{' (one seed)' if one else ''}",
        f"{verdict.ours} [{verdict.lowest}, {verdict.highest}]" if several else verdict.ours,
        verdict.printed or f"*{verdict.note}*",
        _effect(verdict, declared),
        verdict.runs,
        verdict.seeds,
    ]
    return f"| {' | '.join(cells)} |"


def _effect(verdict: Verdict, declared: Declarations) -> str:
    metric = declared.metric(verdict.metric)
    unit = f" ({metric.unit})" if verdict.kind == "difference" and metric.unit not in metric.title else ""
    return f"{verdict.kind} of {metric.title}{unit}"
