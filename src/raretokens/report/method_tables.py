"""What each method buys and costs, as tables for Markdown and for the page."""

from collections.abc import Callable
from typing import NamedTuple

from raretokens import csv_files
from raretokens.evidence.methods import Change
from raretokens.papers.task_names import TASKS
from raretokens.report.effect_text import EFFECT_COLUMNS, effect_text, number_text

MARKS = {"better": "▲", "worse": "▼"}
FEW_MARKS = {"better": "△", "worse": "▽"}  # with fewer than three seeds
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


class Table(NamedTuple):
    task: str
    head: list[str]
    rows: list[list[str]]


COLUMNS: dict[str, Callable[[Change], str]] = {
    "task": lambda change: change.task,
    "run": lambda change: change.run,
    "beside": lambda change: change.baseline,
    "objective": lambda change: change.objective,
    "metric": lambda change: change.metric,
    "title": lambda change: change.title,
    "kind": lambda change: change.effect.kind,
    **{name: (lambda change, show=show: show(change.effect)) for name, show in EFFECT_COLUMNS.items()},
    "verdict": lambda change: change.verdict,
    "seeds": lambda change: str(change.effect.seeds),
    "constant": lambda change: number_text(change.logit_bias),
}


def to_csv(found: list[Change]) -> str:
    rows = ([show(change) for show in COLUMNS.values()] for change in found)
    return csv_files.to_csv(rows, list(COLUMNS))


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
    marked = [change for change in of_run if change.improves], [change for change in of_run if change.degrades]
    sums = [", ".join(_largest(changes)) or "nothing sure" for changes in marked]
    return [of_run[0].run, str(max(change.effect.seeds for change in of_run)), *shown, *sums]


def _shown(change: Change) -> str:
    bias = f"(a constant: {effect_text(change.effect.kind, change.logit_bias)})" if change.logit_bias else ""
    return " ".join(filter(None, [effect_text(change.effect.kind, change.effect.value), mark(change), bias]))


def mark(change: Change) -> str:
    return (FEW_MARKS if change.effect.has_few_seeds else MARKS).get(change.verdict, "")


def _largest(changes: list[Change]) -> list[str]:
    ordered = sorted(changes, key=lambda change: -change.share)
    return [
        f"{change.title} {effect_text(change.effect.kind, change.effect.value)}"
        f"{' (or a constant)' if change.logit_bias and change.improves else ''}"
        for change in ordered[:3]
    ]


def _row(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"
