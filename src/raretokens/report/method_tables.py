"""Results by method as CSV, a page and charts: improved metrics, degraded metrics and cost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from raretokens import csv_files
from raretokens.evidence.methods import Change
from raretokens.papers.declarations import Declarations
from raretokens.papers.task_names import TASKS
from raretokens.report import forest
from raretokens.report.effect_text import EFFECT_COLUMNS, effect_text, number_text

ABOUT = """\
Each run is compared with maximum likelihood on the same model, text and seeds. A chart shows one metric: a marker is the ratio
or the difference, and a line is its 95 % interval over seeds and test sets. Blue circles are better and orange crosses are worse.
Grey markers are inconclusive or not testable. The lists have every change of 1 % or more that is certain, the largest first. A
change is certain if its interval lies on one side of no change. A gain in rare-token perplexity is listed under *Improves* only
if the run is certainly better than the logit-bias baseline.

The *logit-bias baseline* adds one constant to the logits of all rare types after maximum-likelihood training. The constant gives
rare types the mean probability that the run gives them. The green line of a run is the ratio that the baseline reaches in
rare-token perplexity. For runs without measured group probabilities, the line is an upper bound of that ratio, and the ratio is
3 to 22 % lower where we computed it (`studies/rare-bias-small.csv`). [The decomposition](decomposition.md) has the measured
baselines. The baseline also raises the number of distinct predicted rare types (`studies/rare-bias-types-small.csv`).

* **I(W)** is isotropy, from 0 to 1. A higher value is better.
* **S(w)** is the mean cosine of pairs of rows. A lower value is better. A row is the embedding of a token type.
* **AlignSim** says whether words that are aligned in translation have similar rows. A higher value is better.
* **Frequency-probe accuracy** says how well a classifier separates popular rows from rare rows. A lower value is better, and 50 %
  is chance.
* **Run names** have a text or model before the method and an option after the method, such as `wide-agg` and `agg-a001`.

Lower is better for perplexity and other cosines, and higher is better for all other metrics. The glossary
(`docs/glossary.md`) defines the metrics, and its last lines explain the names of runs.

Time and memory are those of a training step of a small model on a CPU, divided by maximum likelihood's
(`benchmarks/step-cpu.csv`).
"""
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
    lines = ["# What each method improves and degrades", "", " ".join(_findings(found)), "", ABOUT]
    for task in dict.fromkeys(change.task for change in found):
        lines += [f"![{TASKS[task].title}: change of each metric by method](charts/methods-{task}.svg)", ""]
    costs = _costs(declared)
    for objective in dict.fromkeys(change.objective for change in found):
        own = [change for change in found if change.objective == objective]
        about = declared.methods.get(objective)
        lines += [f"## {objective}", "", *([f"{about.does} {about.choose}", ""] if about else [])]
        lines += [f"{costs[objective]}", ""] if objective in costs else []
        for run in dict.fromkeys((change.task, change.run) for change in own):
            lines += _list([change for change in own if (change.task, change.run) == run])
        lines.append("")
    return "\n".join(lines)


def _findings(found: list[Change]) -> list[str]:
    """Return sentences on all runs: rare-token perplexity against the logit-bias baseline, and isotropy."""
    versus = Counter(filter(None, (one.compared_with_bias for one in found)))
    isotropy = Counter(one.verdict for one in found if one.metric == ISOTROPY)
    runs = sum(isotropy.values())
    sentences = []
    if versus:
        sentences.append(
            f"In rare-token perplexity, {versus['better']} of {versus.total()} runs are certainly better than the logit-bias "
            f"baseline. Of the others, {versus['not better']} are not better, and {versus['inconclusive']} are inconclusive."
        )
    if runs:
        sentences.append(
            f"The isotropy I(W) of {isotropy['better']} of {runs} runs is higher than under maximum likelihood, and that of "
            f"{isotropy['worse']} runs is lower."
        )
    return sentences


def _costs(declared: Declarations) -> dict[str, str]:
    """Return objective -> a sentence on time and memory. Empty if the repository has no such benchmark."""
    file = declared.folder.absolute().parents[1] / "benchmarks/step-cpu.csv"
    rows = csv_files.read_csv(file).to_dict("records") if file.is_file() else []
    text = "A training step takes {time_to_mle} times the time and {memory_to_mle} times the memory."
    return {row["objective"]: text.format_map(row) for row in rows if row["size"] == COSTS}


def _list(of_run: list[Change]) -> list[str]:
    """Return a run with its certain changes, and with the bound of the logit-bias baseline for rare targets."""
    first, seeds = of_run[0], max(change.effect.seeds for change in of_run)
    lines = [f"* `{first.run}` ({TASKS[first.task].title.lower()}, {seeds} seed{'s' if seeds != 1 else ''})"]
    parts = {"Improves": [one for one in of_run if one.improves], "Degrades": [one for one in of_run if one.degrades]}
    for name, changed in parts.items():
        ordered = sorted(changed, key=lambda change: -change.share)
        shown = "; ".join(f"{one.title} {effect_text(one.effect.kind, one.effect.value)}" for one in ordered)
        lines.append(f"    * {name}: {shown or 'nothing certain'}.")
    for one in of_run:
        if versus := one.compared_with_bias:
            own, bias = (effect_text(one.effect.kind, number) for number in (one.effect.value, one.logit_bias))
            lower = "" if one.measured_baseline else " or lower"
            text = f"Rare-token perplexity is {own}. The logit-bias baseline reaches {bias}{lower}. {VERSUS[versus]}"
            lines.append(f"    * {text}")
    return lines


def write_charts(found: list[Change], folder: Path) -> None:
    """Write methods-<task>.svg, with a panel for each metric and a row for each run."""
    for task in dict.fromkeys(change.task for change in found):
        own = [change for change in found if change.task == task]
        forest.write_panels(_panels(own), folder / f"methods-{task}.svg")


def _panels(own: list[Change]) -> list[forest.Panel]:
    runs = list(dict.fromkeys(change.run for change in own))
    panels = []
    for title in dict.fromkeys(change.title for change in own):
        rows = {change.run: _row_of(change) for change in own if change.title == title}
        biases = {change.run: change.logit_bias for change in own if change.title == title}
        kind = next(change.effect.kind for change in own if change.title == title)
        panels.append(forest.Panel(title, kind, [(run, rows.get(run), biases.get(run)) for run in runs]))
    return panels


def _row_of(change: Change) -> forest.Row:
    assert change.effect.value is not None
    return forest.Row(change.run, change.effect.value, change.effect.main_interval, change.outcome)
