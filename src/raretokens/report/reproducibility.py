"""The page on reproducibility in the measures of QRA++ (CV* of scores, correlations, findings), and the power of claims."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import pandas as pd
from scipy.stats import pearsonr, spearmanr

from raretokens.evidence.scores import Scores
from raretokens.evidence.verdict import TESTED, Outcome, Verdict, comparison_of, counted
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
NUMBERS = ["table", "row", "column", "metric", "reported", "measured", "seeds", "cv_star", "cv_star_of_seeds"]
POWERS = [f"power_{seeds}" for seeds in PLANNED]


def numbers_of(cells: dict[str, list[Cell]], declared: Declarations, scores: dict[str, Scores]) -> pd.DataFrame:
    """Return the reported numbers that were measured on runs, each number of a paper once.

    The columns are NUMBERS and `direction`, which compares the sign of the difference from the baseline with the reported sign.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for name, inside in cells.items():
        own = declared.tables[name]
        for cell in inside:
            if values := _values(cell, own, scores):
                reported = number(cell.reported)
                row = {"table": name, "row": cell.row, "column": cell.column, "metric": cell.metric, "reported": reported}
                row |= {"measured": sum(values) / len(values), "seeds": len(values), "direction": cell.direction}
                row |= {"cv_star": cv_star([reported, row["measured"]]), "cv_star_of_seeds": cv_star([reported, *values])}
                rows.setdefault((own.reported, cell.reported_cell), row)
    return pd.DataFrame(rows.values(), columns=[*NUMBERS, "direction"])


def _values(cell: Cell, own: Table, scores: dict[str, Scores]) -> list[float]:
    """Return the measured number of each seed. Empty without a reported number, and for settings and numbers of the text."""
    if not cell.reported or cell.quoted or number(cell.reported) is None or own.facts or own.neighbours:
        return []
    runs, part = cell.runs.split(), scores[own.task]
    if cell.metric == "paired.p" or cell.metric.startswith(SETTINGS) or any(run not in part.lines for run in runs):
        return []
    return [float(one) for run in runs if isinstance(one := part.number(run, cell.metric), int | float)]


def correlations(reported: Sequence[float], measured: Sequence[float]) -> tuple[float, float] | None:
    """Return Pearson's and Spearman's coefficient of two sets of scores, or None with too few or equal scores."""
    if len(reported) < FEWEST_PAIRS or len(set(reported)) == 1 or len(set(measured)) == 1:
        return None
    return float(pearsonr(reported, measured).statistic), float(spearmanr(reported, measured).statistic)


def powers(verdicts: Sequence[Verdict[Claim]], scores: dict[str, Scores], declared: Declarations) -> pd.DataFrame:
    """Return the power of the counted conclusions that are measured, for each planned number of seeds.

    They have a reported effect and a known variance. Conclusions of no change and those that are not testable are left out.
    """
    rows = []
    for one in counted(verdicts):
        claim, is_tested = one.claim, one.outcome not in (Outcome.NOT_RUN, Outcome.NOT_TESTABLE)
        if one.reported is None or not claim.has_comparable_size or not is_tested:
            continue
        comparison = comparison_of(claim, scores[claim.task], declared)
        power = [comparison.power(one.reported, claim.threshold, seeds) for seeds in PLANNED]
        if None not in power:
            rows.append((one.name, claim.paper, claim.task, claim.left.metric, one.effect.seeds, one.reported, *power))
    return pd.DataFrame(rows, columns=["claim", "paper", "task", "metric", "seeds", "reported", *POWERS])


def to_csv(found: pd.DataFrame) -> str:
    """Return a line for each number, with CV* of the mean and of all seeds."""
    shown = {name: found[name].map(lambda value: number_text(value, 6)) for name in ("reported", "measured")}
    shown |= {name: found[name].map(number_text, na_action="ignore") for name in ("cv_star", "cv_star_of_seeds")}
    return found.assign(**shown).to_csv(columns=NUMBERS, index=False, lineterminator="\n")


def power_csv(planned: pd.DataFrame) -> str:
    """Return a line for each counted conclusion, with its power for each planned number of seeds."""
    shown = {name: planned[name].map("{:.3f}".format) for name in POWERS}
    return planned.assign(reported=planned.reported.map(number_text), **shown).to_csv(index=False, lineterminator="\n")


def to_markdown(
    found: pd.DataFrame, verdicts: Sequence[Verdict], planned: pd.DataFrame, declared: Declarations, scale: str
) -> str:
    return render(
        "reproducibility.md",
        scale=scale,
        titles=[f"{what}, {seeds} seeds" for what in ("power", "80 % or more") for seeds in PLANNED],
        metrics=_of_metrics(found, declared),
        tables=_of_tables(found, declared),
        findings=_findings(verdicts),
        powers=_of_families(planned, declared),
    )


def _of_metrics(found: pd.DataFrame, declared: Declarations) -> Iterator[list[str]]:
    """Yield the median of CV* for each metric, over all tables."""
    titles = found.metric.map(lambda metric: declared.metric(metric).title)
    for title, values in found.cv_star.dropna().groupby(titles, sort=False):
        yield [title, str(len(values)), *(number_text(value, 3) for value in (values.median(), values.min(), values.max()))]


def _of_tables(found: pd.DataFrame, declared: Declarations) -> Iterator[list[str]]:
    for name, inside in found.groupby("table", sort=False):
        pairs = (correlations(own.reported, own.measured) for _, own in inside.groupby("column", sort=False))
        known = list(filter(None, pairs))
        shown = [f"{median(values):.2f}" for values in zip(*known, strict=True)] if known else ["", ""]
        ways = inside.direction[inside.direction != ""]
        same = f"{sum(ways == 'same')} of {len(ways)}" if len(ways) else ""
        if known or same:
            own = declared.tables[name]
            yield [f"[{own.paper} {own.place}](tables/{name}.md)", str(len(known)), *shown, same]


def _findings(verdicts: Sequence[Verdict]) -> Iterator[list[str]]:
    """Yield the share of findings that are upheld, for each paper and for all."""
    papers = list(dict.fromkeys(one.claim.paper for one in verdicts))
    for paper, own in [*((paper, [one for one in verdicts if one.claim.paper == paper]) for paper in papers), ("all", verdicts)]:
        tested = [one for one in own if one.outcome in TESTED]
        upheld = sum(one.outcome == Outcome.REPRODUCED for one in tested)
        yield [paper, str(len(tested)), str(upheld), f"{upheld / len(tested):.2f}" if tested else ""]


def _of_families(planned: pd.DataFrame, declared: Declarations) -> Iterator[list[str]]:
    """Yield the median power, and how many powers are 80 % or more, for the conclusions of a paper on a metric."""
    tasks = planned.task.map(lambda task: TASKS[task].title.lower())
    titles = planned.metric.map(lambda metric: declared.metric(metric).title)
    for family, own in planned.groupby([planned.paper, tasks, titles], sort=False):
        many = [f"{sum(own[name] >= 0.8)} of {len(own)}" for name in POWERS]
        yield [*family, str(len(own)), *(f"{own[name].median():.2f}" for name in POWERS), *many]
