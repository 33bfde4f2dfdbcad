"""Forest plots: effects with their intervals on one axis, as fractions of the reported effects or as measured."""

import textwrap
from collections.abc import Iterable, Sequence
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
# Inches: narrow enough for a phone, with the label of a row above its marker.
WIDTH, MARGIN, LINE, MARKER, HEADING = 4.8, 0.12, 0.15, 0.2, 0.36
LABEL = 72  # characters per line of a label
LIMITS = (-1.5, 2.5)  # limits of fractions; an arrow marks an interval that continues beyond
FRACTIONS = (
    "measured effect divided by the reported effect\n(of ratios: of their logarithms; 0: no effect, 1: the paper)"
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
            label += " (can hardly fail)" if claim.hardly_fails else ""
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
    """Write the forest plot of claims as a deterministic SVG. `note`: a sentence at the bottom."""
    groups = groups or {"No claim with a reported effect was measured": []}
    labels = {row: textwrap.wrap(row.label, LABEL) for rows in groups.values() for row in rows}
    inside = HEADING * len(groups) + sum(LINE * len(label) + MARKER for label in labels.values()) + 0.1
    bottom, top = 1.2 + (0.3 if note else 0), 0.35
    with rc_context(PLOT_STYLE):
        canvas = Canvas(figsize=(WIDTH, inside + bottom + top), dpi=110)
        height = canvas.get_figheight()
        axis = canvas.add_axes((MARGIN / WIDTH, bottom / height, 1 - 2 * MARGIN / WIDTH, inside / height))
        y = 0.0
        for heading, rows in groups.items():
            y += HEADING
            _write(axis, y - 0.12, heading, fontweight="bold")
            for row in rows:
                y += LINE * len(labels[row])
                _write(axis, y, "\n".join(labels[row]))
                draw_row(axis, row, y + MARKER / 2, LIMITS)
                y += MARKER
        finish(axis, inside, LIMITS, (0, 1), FRACTIONS + "".join(f"\n{line}" for line in textwrap.wrap(note, LABEL)))
        canvas.suptitle(title, x=MARGIN / WIDTH, y=1 - 0.1 / height, ha="left", va="top", fontsize=10)
        legend(canvas, {row.style for rows in groups.values() for row in rows})
        save(canvas, path)


def _write(axis: Axes, y: float, text: str, **style: str) -> None:
    """Write text that ends at y, over the vertical lines."""
    white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    place = axis.get_yaxis_transform()
    axis.text(0, y, text, transform=place, va="bottom", fontsize=8, linespacing=1.1, bbox=white, **style)


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


def legend(canvas: Canvas, used: set[Outcome]) -> None:
    """Draw the legend of the verdicts that occur, and of the line at the reported effect."""
    entries = {
        str(name): Line2D([], [], color=colour, marker=marker, linestyle="-", linewidth=1.2, markersize=5)
        for name, (colour, marker) in STYLES.items()
        if name in used
    }
    entries["the paper"] = Line2D([], [], color=GREEN, linestyle=(0, (4, 2)), linewidth=1.2)
    canvas.legend(list(entries.values()), list(entries), loc="lower left", ncols=3, fontsize=8)
