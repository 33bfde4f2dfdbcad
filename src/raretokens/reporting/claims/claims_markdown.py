"""Verdicts as Markdown: counts on top, then a table for each paper."""

from collections import Counter

from raretokens.reporting.claims.verdict import VERDICTS, Verdict
from raretokens.reporting.declarations.declared import Declarations

HEAD = "| verdict | claim | where | effect here | over seeds | over the test set | in print | effect | runs | seeds |"
RULE = "|---|---|---|---|---|---|---|---|---|---|"
LEGEND = """\
An effect is the first run's metric over the second's (ratio), less it (difference), or the metric itself (value): the mean over
seeds, with 95 % intervals over seeds (Student's t of the paired effects, three seeds or more) and over the test set of these runs
(blocks of text, sentences or word pairs drawn again, the same for both runs). *Holds* and *does not hold*: every interval that
exists lies on one side of where the claim turns; a claim of no change is judged by its margin. *One seed*: the test set alone
decides, other seeds might come out otherwise. *Not testable here*: the runs lack what the claim presupposes."""


def to_markdown(verdicts: list[Verdict], declared: Declarations) -> str:
    lines = ["# What the papers conclude, and whether it holds here", "", _summary(verdicts), "", LEGEND]
    for paper in dict.fromkeys(verdict.paper for verdict in verdicts):
        own = sorted(
            (verdict for verdict in verdicts if verdict.paper == paper),
            key=lambda verdict: VERDICTS.index(verdict.verdict),
        )
        lines += ["", f"## {paper}", "", _summary(own), "", HEAD, RULE]
        lines += [_line(verdict, declared) for verdict in own]
    return "\n".join([*lines, ""])


def _summary(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict in counts)
    return f"{len(verdicts)} claims: {words}."


def _line(verdict: Verdict, declared: Declarations) -> str:
    cells = [
        f"**{verdict.verdict}**{' (one seed)' if verdict.one_seed else ''}",
        f"{verdict.statement}{f' (*{verdict.reason}*)' if verdict.reason else ''}",
        verdict.place,
        verdict.ours,
        _range(verdict.seeds_low, verdict.seeds_high),
        _range(verdict.test_low, verdict.test_high),
        verdict.printed or f"*{verdict.note}*",
        _effect(verdict, declared),
        verdict.runs,
        verdict.seeds,
    ]
    return f"| {' | '.join(cells)} |"


def _range(low: str, high: str) -> str:
    return f"[{low}, {high}]" if low else ""


def _effect(verdict: Verdict, declared: Declarations) -> str:
    metric = declared.metric(verdict.metric)
    unit = f" ({metric.unit})" if verdict.kind == "difference" and metric.unit not in metric.title else ""
    return f"{verdict.kind} of {metric.title}{unit}"
