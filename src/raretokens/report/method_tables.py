"""What each method improves and degrades, as tables."""

from collections.abc import Callable
from typing import NamedTuple

from raretokens import csv_files
from raretokens.evidence.methods import Change
from raretokens.papers.task_names import TASKS
from raretokens.report.effect_text import EFFECT_COLUMNS, effect_text, number_text

MARKS = {"better": "▲", "worse": "▼"}
FEW_MARKS = {"better": "△", "worse": "▽"}  # with fewer than three seeds
ABOUT = """\
Each run is compared with maximum likelihood on the same model, text and seeds. A cell is the ratio (x) or the difference of a
metric. ▲ is better and ▼ is worse: every 95 % interval, over seeds and over the test set, excludes no change. △ and ▽ use the
pooled seed variance, because the run has fewer than three seeds. Unmarked differences are inconclusive or not testable.
*Improves* and *degrades* list the three largest marked changes of 1 % or more, relative to the number.

The *logit-bias baseline* adds one constant to the logits of all rare types after maximum-likelihood training. The constant gives
rare types the same mean probability as the run does. The number in parentheses is an upper bound of its ratio of rare-token
perplexity. Where we computed the ratio, it is 3 to 22 % lower (`studies/rare-bias-small.csv`). Where the bound is not above the
run's ratio, the run does not *improve* rare-token perplexity beyond this baseline. The baseline also raises the number of
distinct predicted rare types (`studies/rare-bias-types-small.csv`).
"""


class Table(NamedTuple):
    task: str
    head: list[str]
    rows: list[list[str]]


COLUMNS: dict[str, Callable[[Change], str]] = {
    "task": lambda change: change.task,
    "run": lambda change: change.run,
    "baseline": lambda change: change.baseline,
    "objective": lambda change: change.objective,
    "metric": lambda change: change.metric,
    "title": lambda change: change.title,
    "kind": lambda change: change.effect.kind,
    **{name: (lambda change, show=show: show(change.effect)) for name, show in EFFECT_COLUMNS.items()},
    "verdict": lambda change: change.verdict,
    "seeds": lambda change: str(change.effect.seeds),
    "logit_bias_baseline": lambda change: number_text(change.logit_bias),
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
        made[TASKS[task].title] = Table(task, ["run", "seeds", *titles, "improves", "degrades"], rows)
    return made


def to_markdown(found: list[Change]) -> str:
    lines = ["# What each method improves and degrades", "", ABOUT]
    for title, table in tables(found).items():
        lines += [f"## {title}", "", *map(_row, [table.head, ["---"] * len(table.head), *table.rows]), ""]
    return "\n".join(lines)


def _cells(of_run: list[Change], titles: list[str]) -> list[str]:
    """A run's row: name, seeds, the effect of each metric, what it buys and what it costs."""
    by_title = {change.title: change for change in of_run}
    shown = [_shown(by_title[title]) if title in by_title else "" for title in titles]
    marked = [change for change in of_run if change.improves], [change for change in of_run if change.degrades]
    sums = [", ".join(_largest(changes)) or "nothing certain" for changes in marked]
    return [of_run[0].run, str(max(change.effect.seeds for change in of_run)), *shown, *sums]


def _shown(change: Change) -> str:
    bias = f"(logit-bias baseline: {effect_text(change.effect.kind, change.logit_bias)})" if change.logit_bias else ""
    return " ".join(filter(None, [effect_text(change.effect.kind, change.effect.value), mark(change), bias]))


def mark(change: Change) -> str:
    return (FEW_MARKS if change.effect.has_few_seeds else MARKS).get(change.verdict, "")


def _largest(changes: list[Change]) -> list[str]:
    ordered = sorted(changes, key=lambda change: -change.share)
    return [
        f"{change.title} {effect_text(change.effect.kind, change.effect.value)}"
        f"{' (or the logit-bias baseline)' if change.logit_bias and change.improves else ''}"
        for change in ordered[:3]
    ]


def _row(parts: list[str]) -> str:
    return f"| {' | '.join(parts)} |"
