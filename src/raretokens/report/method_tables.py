"""Results by method as CSV, a page and charts: improved metrics, degraded metrics and cost."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from raretokens import csv_files
from raretokens.evidence.methods import Change
from raretokens.papers.declarations import Declarations
from raretokens.report import forest
from raretokens.report.effect_text import EFFECT_COLUMNS, effect_text, number_text
from raretokens.report.markdown import render

ISOTROPY = "isotropy.total"
VERSUS = {  # run compared with the logit-bias baseline -> end of a sentence
    "better": "The run is better.",
    "not better": "The run is not better.",
    "inconclusive": "Which is lower is inconclusive.",
}
COSTS = "demo/lm/demo"  # the rows of benchmarks/step-cpu.csv that are shown
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
    """Return all changes as CSV, one per line."""
    rows = ([show(change) for show in COLUMNS.values()] for change in found)
    return csv_files.to_csv(rows, list(COLUMNS))


def to_markdown(found: list[Change], declared: Declarations) -> str:
    """Return the page of methods: charts for each task, and for each method its results, its cost and when to choose it."""
    methods: dict[str, dict[tuple[str, str], list[Change]]] = {}  # objective -> task and run -> changes
    for change in found:
        methods.setdefault(change.objective, {}).setdefault((change.task, change.run), []).append(change)
    return render(
        "methods.md",
        summary=" ".join(_summary(found)),
        charts=dict.fromkeys(change.task for change in found),
        methods={objective: runs.values() for objective, runs in methods.items()},
        declared=declared.methods,
        costs=_costs(declared),
        listed=_listed,
        ratio=lambda value: effect_text("ratio", value),
        versus=VERSUS,
    )


def _summary(found: list[Change]) -> list[str]:
    """Return sentences on all runs: rare-token perplexity against the logit-bias baseline, and isotropy."""
    versus = Counter(filter(None, (one.compared_with_bias for one in found)))
    isotropy = Counter(one.verdict for one in found if one.metric == ISOTROPY)
    sentences = []
    if versus:
        sentences.append(
            f"In rare-token perplexity, {versus['better']} of {versus.total()} runs are certainly better than the logit-bias "
            f"baseline. Of the others, {versus['not better']} are not better, and {versus['inconclusive']} are inconclusive."
        )
    if isotropy:
        sentences.append(
            f"The isotropy I(W) of {isotropy['better']} of {isotropy.total()} runs is higher than under maximum likelihood, and "
            f"that of {isotropy['worse']} runs is lower."
        )
    return sentences


def _costs(declared: Declarations) -> dict[str, dict[str, str]]:
    """Return objective -> its line of benchmarks/step-cpu.csv. Empty if the repository has no such benchmark."""
    file = declared.folder.absolute().parents[1] / "benchmarks/step-cpu.csv"
    rows = csv_files.read_csv(file).to_dict("records") if file.is_file() else []
    return {row["objective"]: row for row in rows if row["size"] == COSTS}


def _listed(changes: Iterable[Change]) -> str:
    """Return the changes in words, the largest first."""
    ordered = sorted(changes, key=lambda change: -change.share)
    return "; ".join(f"{one.title} {effect_text(one.effect.kind, one.effect.value)}" for one in ordered) or "nothing certain"


def write_charts(found: list[Change], folder: Path) -> None:
    """Write methods-<task>.svg, with a panel for each metric and a row for each run."""
    for task in dict.fromkeys(change.task for change in found):
        own = [change for change in found if change.task == task]
        forest.write_panels(_panels(own), folder / f"methods-{task}.svg")


def _panels(own: list[Change]) -> list[forest.Panel]:
    runs, panels = dict.fromkeys(change.run for change in own), []
    for title in dict.fromkeys(change.title for change in own):
        by_run = {change.run: change for change in own if change.title == title}
        rows = {run: forest.Row(run, change.effect.value, change.effect.main_interval, change.outcome)
                for run, change in by_run.items()}  # fmt: skip
        biases = {run: change.logit_bias for run, change in by_run.items()}
        kind = next(iter(by_run.values())).effect.kind
        panels.append(forest.Panel(title, kind, [(run, rows.get(run), biases.get(run)) for run in runs]))
    return panels
