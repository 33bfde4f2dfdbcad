"""What each objective buys and costs beside maximum likelihood, on the same model and text.

An effect and its verdict are made as those of claims are: a metric is better or worse where every interval that it has, over
seeds and over the test set, says so.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

from raretokens.reporting import frames, rival
from raretokens.reporting.claims.intervals import FEWEST
from raretokens.reporting.claims.judging import judge
from raretokens.reporting.claims.main_claims import effect
from raretokens.reporting.claims.verdict import Verdict
from raretokens.reporting.declarations.claim import Claim, Side
from raretokens.reporting.declarations.declared import Declarations
from raretokens.reporting.scored import Scores
from raretokens.reporting.tasks import TASKS

# Of a claim that the metric is better.
WORDS = {"holds": "better", "does not hold": "worse", "undecided": "undecided", "not testable here": "not testable"}
MARKS = {"better": "▲", "worse": "▼"}
FEW_MARKS = {"better": "△", "worse": "▽"}  # with fewer than three seeds
LEAST = 0.01  # of a number: what is less is hardly bought or paid
ABOUT = """\
Each run beside the one of maximum likelihood with the same model, text and seeds: the ratio (x) or the difference of a metric.
▲ better, ▼ worse: every interval that there is, over seeds and over the test set, lies on that side; no mark: they do not, or
nothing says how much seeds differ, or what maximum likelihood itself has is no more than noise. △ and ▽ are of one seed or two:
how much seeds differ is taken from the row of the same model whose seeds differ most. *buys* and *costs* name the three largest
changes that are marked, by their share of the number, where that is 1 % or more.

*A constant* in brackets, beside the perplexity of rare targets: what maximum likelihood comes to at most, with one constant on
the logits of all rare types that gives them the probability which the run gives them; where it was computed it is 3 to 22 %
less than that (`studies/rare-bias-small.csv`). Where it is no more than the run's own, the run has learnt nothing of rare types
that this number shows, and does not *buy* it. Where it is more, a constant might still do as much, and *buys* says so.
Distinct rare types a constant buys too; of that there is a study alone (`studies/rare-bias-types-small.csv`).
"""


@dataclass(frozen=True)
class Change:
    """A metric of a run beside the same of maximum likelihood: one line of reports/methods.csv."""

    task: str
    run: str
    beside: str
    objective: str
    metric: str
    title: str
    kind: str  # ratio or difference
    ours: str
    seeds_low: str  # 95 % intervals as those of claims
    seeds_high: str
    test_low: str
    test_high: str
    verdict: str  # better, worse, undecided or not testable
    seeds: str
    constant: str  # of the perplexity of rare targets: what one constant on their logits gives at most
    share: float  # of the number that changed; not in the CSV

    @property
    def bought(self) -> bool:
        """Better, and not by what a constant gives at most."""
        rivalled = self.constant and float(self.constant) <= float(self.ours)
        return self.verdict == "better" and self.share >= LEAST and not rivalled

    @property
    def paid(self) -> bool:
        return self.verdict == "worse" and self.share >= LEAST

    @property
    def mark(self) -> str:
        return (MARKS if int(self.seeds) >= FEWEST else FEW_MARKS).get(self.verdict, "")


class Table(NamedTuple):
    task: str
    head: list[str]
    rows: list[list[str]]


def changes(declared: Declarations, scores: dict[str, Scores]) -> list[Change]:
    return [
        change
        for part in scores.values()
        for run, beside in _pairs(part)
        for change in _of(run, beside, part, declared)
    ]


def to_csv(found: list[Change]) -> str:
    return frames.to_csv(found, [field.name for field in fields(Change) if field.name != "share"])


def tables(found: list[Change]) -> dict[str, Table]:
    """Title of a task -> its table: a row for each run, a column for each metric."""
    made = {}
    for task in dict.fromkeys(change.task for change in found):
        own = [change for change in found if change.task == task]
        titles = list(dict.fromkeys(change.title for change in own))
        runs = dict.fromkeys(change.run for change in own)
        rows = [_cells([change for change in own if change.run == run], titles) for run in runs]
        made[TASKS[task].title] = Table(task, ["run", "seeds", *titles, "buys", "costs"], rows)
    return made


def to_markdown(found: list[Change]) -> str:
    lines = ["# What each method buys and costs", "", ABOUT]
    for title, table in tables(found).items():
        lines += [f"## {title}", "", *map(_row, [table.head, ["---"] * len(table.head), *table.rows]), ""]
    return "\n".join(lines)


def _cells(of_run: list[Change], titles: list[str]) -> list[str]:
    """A run's row: name, seeds, the effect of each metric, what it buys and what it costs."""
    by_title = {change.title: change for change in of_run}
    shown = [_shown(by_title[title]) if title in by_title else "" for title in titles]
    marked = [change for change in of_run if change.bought], [change for change in of_run if change.paid]
    sums = [", ".join(_largest(changes)) or "nothing sure" for changes in marked]
    return [of_run[0].run, max(change.seeds for change in of_run), *shown, *sums]


def _pairs(scores: Scores) -> Iterator[tuple[str, str]]:
    """Each run but its repetitions, and the run of maximum likelihood that it stands beside."""
    for run in scores.repetitions:
        beside = scores.beside(run)
        if beside:
            yield run, beside


def _of(run: str, beside: str, scores: Scores, declared: Declarations) -> Iterator[Change]:
    for title, (metric, kind, needs) in TASKS[scores.task].weighed.items():
        claim = Claim(
            place="",
            statement="",
            task=scores.task,
            left=Side(runs=[run], metric=metric),
            right=Side(runs=[beside], metric=metric),
            effect=kind,
            expect="higher" if declared.metric(metric).direction == "up" else "lower",
            unprinted="no paper's",
            needs=list(needs),
        )
        verdict = judge(metric, claim, scores, declared)
        if verdict.ours:
            yield _change(run, beside, scores, title, verdict)


def _change(run: str, beside: str, scores: Scores, title: str, verdict: Verdict) -> Change:
    left, right = float(verdict.left), float(verdict.right)
    constant = rival.constant_at_most(run, beside, scores) if verdict.metric == rival.METRIC else None
    return Change(
        task=scores.task,
        run=run,
        beside=beside,
        objective=scores.lines[run].objective,
        metric=verdict.metric,
        title=title,
        kind=verdict.kind,
        ours=verdict.ours,
        seeds_low=verdict.seeds_low,
        seeds_high=verdict.seeds_high,
        test_low=verdict.test_low,
        test_high=verdict.test_high,
        verdict=WORDS[verdict.verdict],
        seeds=verdict.seeds,
        constant=f"{constant:.4g}" if constant else "",
        share=_share(left, right),
    )


def _share(left: float, right: float) -> float:
    """How much of a number changed: the logarithm of the ratio of positive ones; without end where nothing is left."""
    if left > 0 < right:
        return abs(math.log(left / right))
    return math.inf if left == 0 < right else abs(left - right) / (max(abs(left), abs(right)) or 1.0)


def _shown(change: Change) -> str:
    constant = f"(a constant: {effect(change.kind, change.constant)})" if change.constant else ""
    return " ".join(filter(None, [effect(change.kind, change.ours), change.mark, constant]))


def _largest(changes: list[Change]) -> list[str]:
    ordered = sorted(changes, key=lambda change: -change.share)
    rivals = [" (or a constant)" if change.constant and change.bought else "" for change in ordered]
    return [
        f"{change.title} {effect(change.kind, change.ours)}{rival}"
        for change, rival in zip(ordered[:3], rivals, strict=False)
    ]


def _row(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"
