"""The page on reproducibility in the measures of QRA++ (CV* of scores, correlations, findings), and the power of claims."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import pearsonr, spearmanr

from raretokens import csv_files
from raretokens.evidence.comparison import Comparison
from raretokens.evidence.effects import reported_effect
from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import TESTED, Outcome, Verdict
from raretokens.papers.claim import Claim
from raretokens.papers.declarations import Declarations, number
from raretokens.papers.table import Table
from raretokens.papers.task_names import TASKS
from raretokens.report.cells import Cell
from raretokens.report.claims import cv_star
from raretokens.report.effect_text import number_text
from raretokens.report.markdown import render

FEWEST_PAIRS = 3  # of a correlation of reported and measured scores
PLANNED = (3, 5)  # numbers of seeds
SETTINGS = ("parameters.", "token_share.")  # prefixes of metrics that do not depend on a training


@dataclass(frozen=True)
class Score:
    """A number of a table: the reported value and the measured values."""

    paper: str
    place: str
    row: str
    column: str
    metric: str
    reported: float
    values: tuple[float, ...]  # of the seeds
    direction: str  # of the difference from the baseline: same, opposite or empty

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def cv(self) -> float | None:
        return cv_star([self.reported, self.mean])

    @property
    def cv_of_seeds(self) -> float | None:
        """CV* with every seed as a value of its own."""
        return cv_star([self.reported, *self.values])


def scores_of(
    cells: dict[str, list[Cell]], declared: Declarations, scores: dict[str, Scores]
) -> dict[str, list[Score]]:
    """Return table -> its reported numbers that were measured on runs, each number of a paper once."""
    found: dict[str, list[Score]] = {}
    seen: set[tuple[str, str]] = set()
    for name, inside in cells.items():
        own = declared.tables[name]
        for cell in inside:
            key = (own.reported, cell.reported_cell)
            if (one := _score(cell, own, scores)) and key not in seen:
                seen.add(key)
                found.setdefault(name, []).append(one)
    return found


def _score(cell: Cell, own: Table, scores: dict[str, Scores]) -> Score | None:
    reported = number(cell.reported) if cell.reported and not cell.quoted else None
    if reported is None or own.facts or own.neighbours or cell.metric == "paired.p" or cell.metric.startswith(SETTINGS):
        return None
    if not cell.runs or any(run not in scores[own.task].lines for run in cell.runs.split()):
        return None  # not measured, or a number of the text alone
    numbers = (scores[own.task].number(run, cell.metric) for run in cell.runs.split())
    values = tuple(float(one) for one in numbers if isinstance(one, int | float))
    if not values:
        return None
    return Score(own.paper, own.place, cell.row, cell.column, cell.metric, reported, values, cell.direction)


def correlations(reported: Sequence[float], measured: Sequence[float]) -> tuple[float, float] | None:
    """Return Pearson's and Spearman's coefficient of two sets of scores, or None with too few or equal scores."""
    if len(reported) < FEWEST_PAIRS or len(set(reported)) == 1 or len(set(measured)) == 1:
        return None
    return float(pearsonr(reported, measured).statistic), float(spearmanr(reported, measured).statistic)


@dataclass(frozen=True)
class Planned:
    """The power of a claim: number of seeds -> probability that its interval shows the reported effect."""

    claim: str
    paper: str
    task: str
    metric: str
    seeds: int  # that were run
    reported: float
    power: dict[int, float]


def powers(verdicts: Sequence[Verdict[Claim]], scores: dict[str, Scores], declared: Declarations) -> list[Planned]:
    """Return the power of each measured claim that has a reported effect and a known variance.

    Claims of no change and claims that are not testable are left out.
    """
    found = []
    for one in verdicts:
        claim, is_tested = one.claim, one.outcome not in (Outcome.NOT_RUN, Outcome.NOT_TESTABLE)
        reported = reported_effect(claim, declared)
        if reported is None or claim.margin is not None or claim.lacks_control or not is_tested:
            continue
        comparison = Comparison.of_claim(claim, scores[claim.task])
        power = {seeds: comparison.power(reported, claim.threshold, seeds) for seeds in PLANNED}
        known = {seeds: value for seeds, value in power.items() if value is not None}
        if len(known) == len(PLANNED):
            found.append(Planned(one.name, claim.paper, claim.task, claim.left.metric, one.effect.seeds, reported, known))
    return found


def to_csv(found: dict[str, list[Score]]) -> str:
    """Return a line for each number, with CV* of the mean and of all seeds."""
    head = ["table", "row", "column", "metric", "reported", "measured", "seeds", "cv_star", "cv_star_of_seeds"]
    rows = [
        (name, one.row, one.column, one.metric, number_text(one.reported, 6), number_text(one.mean, 6), len(one.values),
         number_text(one.cv), number_text(one.cv_of_seeds))
        for name, inside in found.items()
        for one in inside
    ]  # fmt: skip
    return csv_files.to_csv(rows, head)


def power_csv(planned: Sequence[Planned]) -> str:
    """Return a line for each conclusion, with its power for each planned number of seeds."""
    head = ["claim", "paper", "task", "metric", "seeds", "reported", *(f"power_{seeds}" for seeds in PLANNED)]
    rows = [
        (one.claim, one.paper, one.task, one.metric, one.seeds, number_text(one.reported),
         *(f"{one.power[seeds]:.3f}" for seeds in PLANNED))
        for one in planned
    ]  # fmt: skip
    return csv_files.to_csv(rows, head)


def to_markdown(
    found: dict[str, list[Score]], verdicts: Sequence[Verdict], planned: Sequence[Planned], declared: Declarations, scale: str
) -> str:
    """Return the page."""
    return render(
        "reproducibility.md",
        scale=scale,
        titles=[f"{what}, {seeds} seeds" for what in ("power", "80 % or more") for seeds in PLANNED],
        metrics=_of_metrics(found, declared),
        tables=_of_tables(found),
        findings=_findings(verdicts),
        powers=_powers(planned, declared),
    )


def _of_metrics(found: dict[str, list[Score]], declared: Declarations) -> Iterator[list[str]]:
    """Yield the median of CV* for each metric, over all tables."""
    by_metric: dict[str, list[float]] = {}
    for one in (one for inside in found.values() for one in inside):
        if one.cv is not None:
            by_metric.setdefault(declared.metric(one.metric).title, []).append(one.cv)
    for title, values in by_metric.items():
        yield [title, str(len(values)), *(number_text(fold(values), 3) for fold in (median, min, max))]


def _of_tables(found: dict[str, list[Score]]) -> Iterator[list[str]]:
    for name, inside in found.items():
        columns = [[one for one in inside if one.column == column] for column in dict.fromkeys(one.column for one in inside)]
        pairs = [correlations([one.reported for one in own], [one.mean for one in own]) for own in columns]
        known = list(filter(None, pairs))
        shown = [f"{median(values):.2f}" for values in zip(*known, strict=True)] if known else ["", ""]
        ways = [one.direction for one in inside if one.direction]
        same = f"{ways.count('same')} of {len(ways)}" if ways else ""
        if known or ways:
            yield [f"[{inside[0].paper} {inside[0].place}](tables/{name}.md)", str(len(known)), *shown, same]


def _findings(verdicts: Sequence[Verdict]) -> Iterator[list[str]]:
    """Yield the share of findings that are upheld, for each paper and for all."""
    papers = list(dict.fromkeys(one.claim.paper for one in verdicts))
    for paper, own in [*((paper, [one for one in verdicts if one.claim.paper == paper]) for paper in papers), ("all", verdicts)]:
        tested = [one for one in own if one.outcome in TESTED]
        upheld = sum(one.outcome == Outcome.REPRODUCED for one in tested)
        yield [paper, str(len(tested)), str(upheld), f"{upheld / len(tested):.2f}" if tested else ""]


def _powers(planned: Sequence[Planned], declared: Declarations) -> Iterator[list[str]]:
    families: dict[tuple[str, str, str], list[Planned]] = {}
    for one in planned:
        families.setdefault((one.paper, TASKS[one.task].title.lower(), declared.metric(one.metric).title), []).append(one)
    for family, own in families.items():
        medians = [f"{median(one.power[seeds] for one in own):.2f}" for seeds in PLANNED]
        many = [f"{sum(one.power[seeds] >= 0.8 for one in own)} of {len(own)}" for seeds in PLANNED]
        yield [*family, str(len(own)), *medians, *many]
