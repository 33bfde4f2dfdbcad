"""Forest plots: effects with their intervals on one axis, as fractions of the reported effects or as measured."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.evidence.intervals import Interval
from raretokens.evidence.methods import WORDS
from raretokens.evidence.verdict import Outcome, Verdict
from raretokens.papers.claim import EffectKind
from raretokens.report.figure_styles import STYLE
from raretokens.report.figures import save

FONTS = ["DejaVu Sans", "Verdana", "Arial"]
# SVG text takes a third of the bytes of outlines, and it can be searched.
PLOT_STYLE = STYLE | {"svg.fonttype": "none", "font.family": "sans-serif", "font.sans-serif": FONTS}

# Okabe and Ito's colours; marker shapes distinguish the verdicts in greyscale
STYLES = {
    Outcome.REPRODUCED: ("#0072B2", "o"),
    Outcome.CONTRADICTED: ("#D55E00", "X"),
    Outcome.INCONCLUSIVE: ("#6E6E6E", "D"),
    Outcome.NOT_TESTABLE: ("#B0B0B0", "v"),
}
QUESTIONS: dict[str, tuple[str, ...]] = {  # heading -> prefixes of metrics; the longest prefix that fits counts
    "Rare tokens": ("ppl.rare", "uniq.rare", "rare_mass", "ppl_pointer.rare", "ppl_dynamic.rare"),
    "All tokens": ("ppl", "uniq", "continuation", "valid_nll"),
    "Isotropy of the embedding matrix": ("",),
    "Word similarity": ("spearman", "all_but_top.spearman"),
    "Translation": ("bleu", "chrf", "paired", "alignsim"),
    "Classification": ("accuracy",),
    "Neighbours and frequency": ("neighbours", "named_ranks", "frequency", "similarity"),
}
GREEN = "#009E73"
BIAS = "logit-bias baseline"
LABEL = 58  # characters per line of a label
ROW, HEADING = 0.235, 0.34  # inches
LIMITS = (-1.5, 2.5)  # limits of fractions; an arrow marks an interval that continues beyond


class Row(NamedTuple):
    """A row of a plot."""

    label: str
    value: float
    interval: Interval | None
    style: Outcome


def question(metric: str) -> str:
    """Return the heading of a metric."""
    headings = {start: title for title, starts in QUESTIONS.items() for start in starts}
    return headings[max(filter(metric.startswith, headings), key=len)]


def fraction_rows(verdicts: Iterable[Verdict]) -> dict[str, list[Row]]:
    """Return question -> rows of the claims that were measured and have a reported effect."""
    found: dict[str, list[Row]] = {title: [] for title in QUESTIONS}
    for verdict in verdicts:
        claim, value = verdict.claim, verdict.fraction(verdict.effect.value)
        if value is not None and verdict.outcome != Outcome.NOT_RUN:
            label = claim.statement if claim.paper in claim.statement else f"{claim.statement} ({claim.paper})"
            row = Row(label, value, verdict.fraction_interval, verdict.outcome)
            found[question(claim.left.metric)].append(row)
    return {title: rows for title, rows in found.items() if rows}


@dataclass(frozen=True)
class Axis:
    """Labels, limits and vertical lines of the x axis."""

    label: str
    lines: Sequence[float]  # vertical lines; the first is solid
    limits: tuple[float, float]


FRACTIONS = Axis(
    "measured effect divided by the reported effect; of ratios, their logarithms\n(0: no effect, 1: the paper)",
    (0, 1),
    LIMITS,
)


def write_forest(groups: dict[str, list[Row]], path: Path, title: str) -> None:
    """Write the forest plot of claims as a deterministic SVG."""
    groups = groups or {"No claim with a reported effect was measured": []}
    labels = {row: textwrap.wrap(row.label, LABEL) for rows in groups.values() for row in rows}
    lines = sum(max(1, 0.62 * len(label)) for label in labels.values())
    height = ROW * lines + HEADING * len(groups) + 1.33
    with rc_context(PLOT_STYLE):
        canvas = Canvas(figsize=(8.6, height), dpi=110)
        axis = canvas.add_axes((0.49, 0.8 / height, 0.49, 1 - 1.28 / height))
        y = 0.0
        for heading, rows in groups.items():
            y += HEADING / ROW
            axis.text(-0.985, y - 0.35, heading, transform=axis.get_yaxis_transform(), fontweight="bold", va="center")
            for row in rows:
                step = max(1, 0.62 * len(labels[row]))
                y += step / 2
                axis.text(-0.985, y, "\n".join(labels[row]), transform=axis.get_yaxis_transform(), va="center", fontsize=7.6,
                          linespacing=1.05)  # fmt: skip
                draw_row(axis, row, y, FRACTIONS)
                y += step / 2
        finish(axis, y + 0.4, FRACTIONS)
        canvas.suptitle(title, x=0.01, y=1 - 0.12 / height, ha="left", va="top", fontsize=10)
        legend(canvas, {row.style for rows in groups.values() for row in rows}, {}, "the paper")
        save(canvas, path)


def draw_row(axis: Axes, row: Row, y: float, about: Axis) -> None:
    """Draw a marker at the value, a line over the interval, and an arrow where either exceeds the limits of the axis."""
    (colour, marker), (low, high) = STYLES[row.style], about.limits
    ends = row.interval or Interval(row.value, row.value)
    axis.plot([max(ends.low, low), min(ends.high, high)], [y, y], color=colour, linewidth=1.2, solid_capstyle="butt")
    for is_out, end, arrow in ((ends.low < low, low, "<"), (ends.high > high, high, ">")):
        if is_out:
            axis.plot([end], [y], marker=arrow, color=colour, markersize=4, clip_on=False)
    if low <= row.value <= high:
        axis.plot([row.value], [y], marker=marker, color=colour, markersize=4.8, linestyle="")


def finish(axis: Axes, bottom: float, about: Axis) -> None:
    first, *others = about.lines
    axis.axvline(first, color="0.55", linewidth=0.8, zorder=0)
    for line in others:
        axis.axvline(line, color=GREEN, linewidth=1.0, linestyle=(0, (4, 2)), zorder=0)
    axis.set(xlim=about.limits, ylim=(bottom, 0), yticks=[], xlabel=about.label)
    axis.spines["left"].set_visible(False)


def legend(canvas: Canvas, used: set[Outcome], names: Mapping[Outcome, str], line: str) -> None:
    """Draw the legend of the verdicts that occur, with their labels if these are not the verdicts, and of the green line."""
    entries = {
        names.get(name, name): Line2D([], [], color=colour, marker=marker, linestyle="-", linewidth=1.2, markersize=5)
        for name, (colour, marker) in STYLES.items()
        if name in used
    }
    if line:
        entries[line] = Line2D([], [], color=GREEN, linestyle="-" if line == BIAS else (0, (4, 2)), linewidth=1.2)
    canvas.legend(list(entries.values()), list(entries), loc="lower left", ncols=len(entries), fontsize=7.6)


class Panel(NamedTuple):
    """A small chart of one metric for several runs."""

    title: str
    kind: EffectKind
    rows: list[tuple[str, Row | None, float | None]]  # run, its effect, the logit-bias baseline


PANELS = 4  # panels per row
WIDE = 3.0  # ratios: a range beyond this factor has a logarithmic axis
FAR = 4.0  # a value is left out of the limits if it is this many times as far from no effect as any other
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def write_panels(panels: list[Panel], path: Path) -> None:
    """Write small charts of equal height, with a panel for each metric and a row for each run."""
    names = [name for name, _, _ in panels[0].rows]
    columns = min(PANELS, len(panels))
    rows = -(-len(panels) // columns)
    with rc_context(PLOT_STYLE):
        canvas = Canvas(
            figsize=(2.2 * columns + 1.3, rows * (0.15 * len(names) + 0.75) + 0.35), dpi=110, layout="constrained"
        )
        grid = canvas.subplots(rows, columns, squeeze=False, sharey=True)
        for axis, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(axis, panel, names)
        for axis in grid.flat[len(panels) :]:
            axis.set_axis_off()
        canvas.get_layout_engine().set(rect=(0, 0.3 / canvas.get_figheight(), 1, 1 - 0.3 / canvas.get_figheight()))
        used = {row.style for panel in panels for _, row, _ in panel.rows if row}
        has_bias = any(bias is not None for panel in panels for *_, bias in panel.rows)
        legend(canvas, used, WORDS, BIAS if has_bias else "")
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


def _draw_panel(axis: Axes, panel: Panel, names: list[str]) -> None:
    neutral = 1.0 if panel.kind == "ratio" else 0.0
    shown = [(y, row, bias) for y, (_, row, bias) in enumerate(panel.rows) if row]
    values = [number for _, row, bias in shown for number in (row.value, bias) if number is not None] + [neutral]
    is_wide = panel.kind == "ratio" and max(values) > WIDE * min(values)
    limits = (0.8 * min(values), 1.25 * max(values)) if is_wide else _limits(values, [row for _, row, _ in shown], neutral)
    about = Axis("ratio" if panel.kind == "ratio" else "difference", (neutral,), limits)
    for y, row, bias in shown:
        draw_row(axis, row, y, about)
        if bias is not None:
            axis.plot([bias, bias], [y - 0.4, y + 0.4], color=GREEN, linewidth=1.4)
    finish(axis, len(names) - 0.3, about)
    if is_wide:
        axis.set_xscale("log")
        axis.set_xlabel(f"{about.label} (logarithmic)")
        axis.set_xticks([tick for tick in TICKS if about.limits[0] <= tick <= about.limits[1]])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.tick_params("y", length=0)
    axis.set_title(textwrap.fill(panel.title, 28), fontsize=8)
    if not is_wide:
        axis.locator_params(axis="x", nbins=4)
    axis.tick_params("x", labelsize=7)
    axis.xaxis.label.set_size(7)
