"""What each objective buys and costs beside maximum likelihood, on the same model and text.

An effect and its verdict are made as those of claims are: a metric is better or worse where every interval that it has, over
seeds and over the test set, says so.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from raretokens import csv_files
from raretokens.evidence import logit_bias
from raretokens.evidence.judging import judge
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import Verdict
from raretokens.papers.claim import Claim, Side
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import TASKS

# Of a claim that the metric is better.
WORDS = {"holds": "better", "does not hold": "worse", "undecided": "undecided", "not testable here": "not testable"}
LEAST = 0.01  # of a number: what is less is hardly bought or paid


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


def changes(declared: Declarations, scores: dict[str, Scores]) -> list[Change]:
    return [
        change
        for part in scores.values()
        for run, beside in _pairs(part)
        for change in _of(run, beside, part, declared)
    ]


def to_csv(found: list[Change]) -> str:
    return csv_files.to_csv(found, [field.name for field in fields(Change) if field.name != "share"])


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
    constant = logit_bias.constant_at_most(run, beside, scores) if verdict.metric == logit_bias.METRIC else None
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
