"""The page on rare-token perplexity: P(rare), perplexity within the rare group, the logit-bias baseline, what papers imply."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from raretokens import csv_files
from raretokens.claims.comparison import Effect, Interval
from raretokens.claims.effect_text import EFFECT_COLUMNS, effect_text, number_text, with_interval
from reproduction.papers.logit_bias import (
    TASK,
    Decomposition,
    Implied,
    LogitBiasBaseline,
    frontier_points,
    shared_seeds,
)
from reproduction.papers.task_scores import AllScores, TaskScores
from reproduction.report.figures import save
from reproduction.report.forest import PLOT_STYLE
from reproduction.report.markdown import render

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = "osDv^<>PX*"


def to_csv(found: list[Decomposition]) -> str:
    """Return a line for each part of each run, and two for each of its baselines. A constant is in nats, a slope per nat."""
    head = ["run", "objective", "number", "seeds", *EFFECT_COLUMNS, "total", "slope", "constant"]
    rows: list[dict[str, str]] = []
    for one in found:
        seeds = str(one.effects["ppl.rare"].seeds)
        of_run = {"run": one.run, "objective": one.objective, "seeds": seeds}
        for metric, effect in one.effects.items():
            rows.append(of_run | {"number": metric} | {name: show(effect) for name, show in EFFECT_COLUMNS.items()})
        for baseline in one.baselines:
            place = "logit bias" if baseline.group == "rare" else "logit bias on the own group"
            name = f"{place}, {baseline.parameters} parameter{'s' * (baseline.parameters - 1)}, equal {baseline.equal}"
            slope = number_text(baseline.slope) if baseline.parameters > 1 else ""
            bias = {"slope": slope, "constant": number_text(baseline.constant)}
            numbers = {"measured": number_text(baseline.rare), "total": number_text(baseline.total)}
            rows.append(of_run | {"number": name} | numbers | bias)
            low, high = map(number_text, baseline.interval or (None, None))
            ends = {"seeds_low": low, "seeds_high": high}
            rows.append(of_run | {"number": f"run / ({name})", "measured": number_text(baseline.advantage)} | ends)
    return csv_files.to_csv(([row.get(name, "") for name in head] for row in rows), head)


def to_markdown(found: list[Decomposition], reported: list[Implied], scale: str) -> str:
    return render(
        "decomposition.md",
        scale=scale,
        answer=list(_answer(found)),
        runs=[[f"`{one.run}`", str(one.effects["ppl.rare"].seeds), *map(_effect, one.effects.values())] for one in found],
        baselines=[row for one in found for row in _baselines(one)],
        own_baselines=[row for one in found for row in _own_baselines(one)],
        implied=map(_implied, reported),
    )


def _answer(found: list[Decomposition]) -> Iterator[str]:
    """Yield list items that answer the title, from runs whose interval covers seeds: where perplexity is higher or lower."""
    if within := {one.run: interval for one in found if (interval := one.effects["ppl_within.rare"].interval)}:
        yield "* **Perplexity within the rare group**, compared with maximum likelihood, is " + _sides(within)
    baselines = {one.run: one.main_baseline for one in found}
    if versus := {run: baseline.interval for run, baseline in baselines.items() if baseline and baseline.interval}:
        yield "* **Rare-token perplexity**, compared with the logit-bias baseline at the same mean P(rare), is " + _sides(versus)


def _sides(known: dict[str, Interval]) -> str:
    """Return `higher in a and b. The interval of c includes no difference.`, from the intervals of ratios."""
    higher = [f"`{run}`" for run, interval in known.items() if interval.low > 1]
    lower = [f"`{run}`" for run, interval in known.items() if interval.high < 1]
    parts = [f"{side} in {_and(runs)}" for side, runs in (("higher", higher), ("lower", lower)) if runs]
    text = f"{' and '.join(parts)}." if parts else "in no run higher or lower."
    if same := [f"`{run}`" for run, interval in known.items() if interval.low <= 1 <= interval.high]:
        text += f" The interval{'s' * (len(same) > 1)} of {_and(same)} include{'s' * (len(same) == 1)} no difference."
    return text


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _effect(effect: Effect) -> str:
    return with_interval(effect.kind, effect.value, effect.main_interval)


def _baselines(one: Decomposition) -> Iterator[list[str]]:
    for baseline in one.baselines:
        if baseline.group == "rare":
            slope = f"{baseline.slope:.2f}".replace("-0.00", "0.00") if baseline.parameters > 1 else ""
            yield [f"`{one.run}`", baseline.equal, str(baseline.parameters), slope, *_compared(one, baseline)]


def _own_baselines(one: Decomposition) -> Iterator[list[str]]:
    share = "" if one.own_share is None else f"{100 * one.own_share:.1f} %"
    own = (baseline for baseline in one.baselines if baseline.group == "own")
    return ([f"`{one.run}`", share, baseline.equal, *_compared(one, baseline)] for baseline in own)


def _compared(one: Decomposition, baseline: LogitBiasBaseline) -> list[str]:
    """Return rare-token and total perplexity of a run and of its baseline, and the ratio of the two rare-token perplexities."""
    own = [effect_text("ratio", one.effects[metric].value) for metric in ("ppl.rare", "ppl.total")]
    rare, total = (effect_text("ratio", number) for number in (baseline.rare, baseline.total))
    return [own[0], rare, own[1], total, with_interval("ratio", baseline.advantage, baseline.interval)]


def _implied(one: Implied) -> list[str]:
    rare, total = (effect_text("ratio", value) for value in (one.rare, one.total))
    constant = f"x {one.constant.low:.4f} to {one.constant.high:.4f}"
    return [one.row, one.table.upper().replace("_TABLE", " table "), rare, total, f"x {one.others:.4f}", constant]


def write_chart(found: list[Decomposition], scores: AllScores, path: Path) -> None:
    """Draw rare-token perplexity against total perplexity, in a panel for each model config.

    A point is a run with a seed, and a line is the logit-bias baseline of a seed of maximum likelihood.
    """
    part = scores[TASK]
    panels: dict[str, dict[str, str]] = {}  # run of maximum likelihood -> run -> its name without the prefix of the model config
    for one in found:
        if mle := part.baseline_run(one.run):
            panels.setdefault(mle, {})[one.run] = one.run.removeprefix(mle.removesuffix("mle"))
    if not panels:
        return
    names = dict.fromkeys(name for own in panels.values() for name in own.values())
    styles = dict(zip(names, zip(COLOURS * len(names), MARKERS * len(names), strict=False), strict=False))
    with rc_context(PLOT_STYLE):
        columns = min(len(panels), 3)
        rows = -(-len(panels) // columns)
        canvas = Canvas(figsize=(2.6 * columns + 0.4, 2.3 * rows + 0.8), dpi=110, layout="constrained")
        axes = canvas.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axis, (mle, own) in zip(axes.flat, panels.items(), strict=False):
            _draw_frontiers(axis, list(part.repeats(mle)), part)
            for run, name in own.items():
                points, (colour, marker) = np.array(list(_points(run, scores))), styles[name]
                if len(points):
                    axis.plot(*points.T, marker, color=colour, markersize=5, label=name)
            axis.plot([1], [1], "+", color="black", markersize=9, label="maximum likelihood")
            axis.set(title=f"compared with {mle}", yscale="log")
        low, high = axes[0, 0].get_ylim()
        axes[0, 0].set_yticks([tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if low <= tick <= high])
        axes[0, 0].yaxis.set_major_formatter("{x:g}")
        for axis in axes.flat:
            axis.minorticks_off()
            axis.set_visible(axis.has_data())
        canvas.supxlabel("total perplexity (both divided by maximum likelihood's)", fontsize=9)
        canvas.supylabel("perplexity of rare targets", fontsize=9)
        shown = {text: handle for axis in axes.flat for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)}
        canvas.legend(shown.values(), shown.keys(), loc="outside upper center", fontsize=7.6, ncols=columns + 1)
        save(canvas, path)


def _draw_frontiers(axis: Axes, baselines: list[str], part: TaskScores) -> None:
    """Draw the logit-bias baseline of each seed of maximum likelihood, with one and with two parameters."""
    known = [frontier for mle in baselines if (frontier := part.frontier(mle)) is not None]
    for number, frontier in enumerate(known):
        for parameters, style in ((1, "-"), (2, (0, (3, 2)))):
            total, rare = frontier_points(frontier, parameters)
            label = f"logit bias, {parameters} parameter{'s' * (parameters - 1)}" if number == 0 else None
            axis.plot(total, rare, color="0.45", linestyle=style, linewidth=1.0, label=label)


def _points(run: str, scores: AllScores) -> Iterator[tuple[float, float]]:
    """Yield total and rare-token perplexity of each seed of a run, divided by those of maximum likelihood."""
    part = scores[TASK]
    for name, _, mle in shared_seeds(run, part):
        if part.number(name, "ppl_within.rare") is not None:
            total, rare = (part.number(name, f"ppl.{kind}") / part.number(mle, f"ppl.{kind}") for kind in ("total", "rare"))
            yield total, rare
