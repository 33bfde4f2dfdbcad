"""Forest plots: effects with their intervals on one axis, as fractions of the reported effects or as measured."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.claims.intervals import Interval
from raretokens.claims.verdict import Outcome, Verdict
from raretokens.figure_style import STYLE
from reproduction.report.figures import save

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
FRACTIONS = (
    "measured effect divided by the reported effect; of ratios, their logarithms\n(0: no effect, 1: the paper)"
)


class Row(NamedTuple):
    label: str
    value: float
    interval: Interval | None
    style: Outcome


def question(metric: str) -> str:
    headings = {start: title for title, starts in QUESTIONS.items() for start in starts}
    return headings[max(filter(metric.startswith, headings), key=len)]


def fraction_rows(verdicts: Iterable[Verdict]) -> dict[str, list[Row]]:
    """Return question -> rows of the claims that were measured and have a reported effect."""
    found: dict[str, list[Row]] = {title: [] for title in QUESTIONS}
    for verdict in verdicts:
        claim, value = verdict.claim, verdict.fraction(verdict.effect.value)
        if value is not None and verdict.outcome != Outcome.NOT_RUN:
            label = claim.statement if claim.paper in claim.statement else f"{claim.statement} ({claim.paper})"
            label += " (hardly fails)" if claim.hardly_fails else ""
            row = Row(label, value, verdict.fraction_interval, verdict.outcome)
            found[question(claim.left.metric)].append(row)
    return {title: rows for title, rows in found.items() if rows}


def left_out(verdicts: Sequence[Verdict], groups: dict[str, list[Row]]) -> str:
    """Return a sentence on the claims that have no row. Empty if each has one."""
    absent = len(verdicts) - sum(map(len, groups.values()))
    have = "has" if absent == 1 else "have"
    why = "not measured, or no reported change to divide by"
    return f"{absent} of {len(verdicts)} conclusions {have} no row: {why}" if absent else ""


def write_forest(groups: dict[str, list[Row]], path: Path, title: str, note: str = "") -> None:
    """Write the forest plot of claims as a deterministic SVG. `note`: a line at the bottom."""
    groups = groups or {"No claim with a reported effect was measured": []}
    labels = {row: textwrap.wrap(row.label, LABEL) for rows in groups.values() for row in rows}
    lines = sum(max(1, 0.62 * len(label)) for label in labels.values())
    bottom = 0.8 + (0.17 if note else 0)
    height = ROW * lines + HEADING * len(groups) + bottom + 0.53
    with rc_context(PLOT_STYLE):
        canvas = Canvas(figsize=(8.6, height), dpi=110)
        axis = canvas.add_axes((0.49, bottom / height, 0.49, 1 - (bottom + 0.48) / height))
        y = 0.0
        for heading, rows in groups.items():
            y += HEADING / ROW
            axis.text(-0.985, y - 0.35, heading, transform=axis.get_yaxis_transform(), fontweight="bold", va="center")
            for row in rows:
                step = max(1, 0.62 * len(labels[row]))
                y += step / 2
                axis.text(-0.985, y, "\n".join(labels[row]), transform=axis.get_yaxis_transform(), va="center", fontsize=7.6,
                          linespacing=1.05)  # fmt: skip
                draw_row(axis, row, y, LIMITS)
                y += step / 2
        finish(axis, y + 0.4, LIMITS, (0, 1), f"{FRACTIONS}\n{note}" if note else FRACTIONS)
        canvas.suptitle(title, x=0.01, y=1 - 0.12 / height, ha="left", va="top", fontsize=10)
        legend(canvas, {row.style for rows in groups.values() for row in rows}, {}, "the paper")
        save(canvas, path)


def draw_row(axis: Axes, row: Row, y: float, limits: tuple[float, float]) -> None:
    """Draw a marker at the value, a line over the interval, and an arrow where either exceeds the limits of the axis."""
    (colour, marker), (low, high) = STYLES[row.style], limits
    ends = row.interval or Interval(row.value, row.value)
    axis.plot([max(ends.low, low), min(ends.high, high)], [y, y], color=colour, linewidth=1.2, solid_capstyle="butt")
    for is_out, end, arrow in ((ends.low < low, low, "<"), (ends.high > high, high, ">")):
        if is_out:
            axis.plot([end], [y], marker=arrow, color=colour, markersize=4, clip_on=False)
    if low <= row.value <= high:
        axis.plot([row.value], [y], marker=marker, color=colour, markersize=4.8, linestyle="")


def finish(axis: Axes, bottom: float, limits: tuple[float, float], lines: Sequence[float], label: str) -> None:
    """Set limits and label of the x axis, and draw vertical lines, of which the first is solid."""
    first, *others = lines
    axis.axvline(first, color="0.55", linewidth=0.8, zorder=0)
    for line in others:
        axis.axvline(line, color=GREEN, linewidth=1.0, linestyle=(0, (4, 2)), zorder=0)
    axis.set(xlim=limits, ylim=(bottom, 0), yticks=[], xlabel=label)
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
