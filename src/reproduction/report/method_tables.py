"""Results by method as CSV, a page and charts: improved metrics, degraded metrics and cost."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from raretokens import csv_files
from raretokens.claims.effect_text import EFFECT_COLUMNS, effect_text, number_text
from raretokens.claims.expectation import NEUTRAL
from reproduction.papers.declarations import Declarations
from reproduction.papers.load import load_searches
from reproduction.papers.methods import WORDS, Change
from reproduction.report.figures import save
from reproduction.report.forest import BIAS, GREEN, PLOT_STYLE, Row, draw_row, finish, legend
from reproduction.report.markdown import render

ISOTROPY = "isotropy.total"
VERSUS = {  # run compared with the logit-bias baseline -> end of a sentence
    "better": "The run is better.",
    "not better": "The run is not better.",
    "inconclusive": "Which is lower is inconclusive.",
}
NOT_RECORDED = "not recorded"
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
        searches=_searches(declared),
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
            f"In rare-token perplexity, {versus['better']} of {versus.total()} runs {_be(versus['better'])} certainly better "
            f"than the logit-bias baseline. Of the others, {versus['not better']} {_be(versus['not better'])} not better, "
            f"and {versus['inconclusive']} {_be(versus['inconclusive'])} inconclusive."
        )
    if isotropy:
        sentences.append(
            f"The isotropy I(W) of {isotropy['better']} of {isotropy.total()} runs is higher than under maximum likelihood, and "
            f"that of {isotropy['worse']} runs is lower."
        )
    return sentences


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _costs(declared: Declarations) -> dict[str, dict[str, str]]:
    """Return objective -> its line of benchmarks/step-cpu.csv. Empty if the repository has no such benchmark."""
    file = declared.folder.absolute().parents[1] / "benchmarks/step-cpu.csv"
    rows = csv_files.read_csv(file).to_dict("records") if file.is_file() else []
    return {row["objective"]: row for row in rows if row["size"] == COSTS}


def _searches(declared: Declarations) -> list[list[str]]:
    """Return a row for each declared choice of options: the methods, tasks and options, the search, its trials and its rule."""
    return [
        [
            ", ".join(one.objectives) or "all",
            ", ".join(one.tasks) or "all",
            ", ".join(f"`{option}`" for option in one.options) or "all",
            one.bounds or NOT_RECORDED,
            NOT_RECORDED if one.trials is None else str(one.trials),
            one.rule or NOT_RECORDED,
            f"`{one.source}`",
        ]
        for one in load_searches(declared.folder).values()
    ]


def _listed(changes: Iterable[Change]) -> str:
    """Return the changes in words, the largest first."""
    ordered = sorted(changes, key=lambda change: -change.share)
    return "; ".join(f"{one.title} {effect_text(one.effect.kind, one.effect.value)}" for one in ordered) or "nothing certain"


PANELS = 4  # panels per row
WIDE = 3.0  # ratios: a range beyond this factor has a logarithmic axis
FAR = 4.0  # a value is left out of the limits if it is this many times as far from no effect as any other
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def write_charts(found: list[Change], folder: Path) -> None:
    """Write methods-<task>.svg, with a panel for each metric and a row for each run."""
    for task in dict.fromkeys(change.task for change in found):
        _write_chart([change for change in found if change.task == task], folder / f"methods-{task}.svg")


def _write_chart(own: list[Change], path: Path) -> None:
    """Write small charts of equal height. The green line of a run is the logit-bias baseline."""
    names, titles = (list(dict.fromkeys(getattr(change, key) for change in own)) for key in ("run", "title"))
    columns = min(PANELS, len(titles))
    rows = -(-len(titles) // columns)
    with rc_context(PLOT_STYLE):
        size = (2.2 * columns + 1.3, rows * (0.15 * len(names) + 0.75) + 0.35)
        canvas = Canvas(figsize=size, dpi=110, layout="constrained")
        grid = canvas.subplots(rows, columns, squeeze=False, sharey=True)
        for axis, title in zip(grid.flat, titles, strict=False):
            _draw_panel(axis, title, [change for change in own if change.title == title], names)
        for axis in grid.flat[len(titles) :]:
            axis.set_axis_off()
        canvas.get_layout_engine().set(rect=(0, 0.3 / canvas.get_figheight(), 1, 1 - 0.3 / canvas.get_figheight()))
        has_bias = any(change.logit_bias is not None for change in own)
        legend(canvas, {change.outcome for change in own}, WORDS, BIAS if has_bias else "")
        save(canvas, path)


def _limits(values: list[float], rows: list[Row], neutral: float) -> tuple[float, float]:
    """Return limits that show the values, except one that is far from all others, and intervals up to twice their range."""
    far = sorted(values, key=lambda value: abs(value - neutral))
    if len(far) > 2 and abs(far[-1] - neutral) > FAR * abs(far[-2] - neutral) > 0:
        values = far[:-1]
    low, high = min(values), max(values)
    reach = (high - low) or 0.1
    ends = [end for row in rows if low <= row.value <= high for end in row.interval or ()]
    return (max(min([low, *ends]), low - reach) - 0.15 * reach, min(max([high, *ends]), high + reach) + 0.15 * reach)


def _draw_panel(axis: Axes, title: str, changes: list[Change], names: list[str]) -> None:
    kind = changes[0].effect.kind
    neutral = NEUTRAL[kind]
    rows = [Row(one.run, one.effect.value, one.effect.main_interval, one.outcome) for one in changes]
    biases = {names.index(one.run): one.logit_bias for one in changes if one.logit_bias is not None}
    values = [*(row.value for row in rows), *biases.values(), neutral]
    is_wide = kind == "ratio" and max(values) > WIDE * min(values)
    limits = (0.8 * min(values), 1.25 * max(values)) if is_wide else _limits(values, rows, neutral)
    for row in rows:
        y = names.index(row.label)
        draw_row(axis, row, y, limits)
        if y in biases:
            axis.plot([biases[y]] * 2, [y - 0.4, y + 0.4], color=GREEN, linewidth=1.4)
    finish(axis, len(names) - 0.3, limits, (neutral,), "ratio" if kind == "ratio" else "difference")
    if is_wide:
        axis.set_xscale("log")
        axis.set_xlabel("ratio (logarithmic)")
        axis.set_xticks([tick for tick in TICKS if limits[0] <= tick <= limits[1]])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.tick_params("y", length=0)
    axis.set_title(textwrap.fill(title, 28), fontsize=8)
    if not is_wide:
        axis.locator_params(axis="x", nbins=4)
    axis.tick_params("x", labelsize=7)
    axis.xaxis.label.set_size(7)
