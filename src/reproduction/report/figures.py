"""Write the files of a figure: its points as CSV, which the report diff compares, and a picture."""

import io
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from raretokens.figure_style import GROUPS, STYLE
from raretokens.files import atomic_write, write_text
from reproduction.papers.table import Panel
from reproduction.report.figure_points import HEADER, PanelPoints
from reproduction.report.figure_styles import EFFECT, Styles, add_legend, groups

METADATA = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}  # removes metadata that would differ each time
NEEDLESS = re.compile(rb"(?<=\d\d\.\d\d)\d+|^ +", re.MULTILINE)  # in an SVG: digits after the second decimal, and indentation
WIDTH = 7.6  # inches; 836 pixels, which fit a page on GitHub
COLUMNS_OF = {1: 1, 2: 2, 3: 3, 4: 2}
HEIGHTS = {1: 3.3, 2: 2.9, 3: 2.5}  # inches per row, by the number of columns


def write_figure(panels: list[PanelPoints], into: Path, name: str) -> None:
    """Write <name>.csv with the points, and <name>.png for clouds or <name>.svg for lines. Output is deterministic."""
    points = pd.concat([panel.rows for panel in panels])
    write_text(into / f"{name}.csv", points.to_csv(columns=HEADER, index=False, lineterminator="\n"))
    columns = COLUMNS_OF.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        size = (WIDTH if columns > 1 else 0.7 * WIDTH, rows * HEIGHTS[columns] + 0.3)
        canvas = Canvas(figsize=size, dpi=110, layout="constrained")
        draw(panels, canvas, rows, columns)
        save(canvas, into / f"{name}.{picture_kind(panel.panel for panel in panels)}")


def save(canvas: Canvas, path: Path) -> None:
    """Write a picture in the format of its suffix, without metadata that would differ each time."""
    drawn, kind = io.BytesIO(), path.suffix[1:]
    canvas.savefig(drawn, format=kind, metadata=METADATA[kind])
    picture = drawn.getvalue()
    with atomic_write(path) as part:
        part.write_bytes(NEEDLESS.sub(b"", picture) if kind == "svg" else picture)


def picture_kind(panels: Iterable[Panel]) -> str:
    """Return png for panels with clouds of points, whose SVG would be large, else svg."""
    return "png" if any(panel.kind == "scatter" for panel in panels) else "svg"


def draw(panels: list[PanelPoints], canvas: Canvas, rows: int, columns: int) -> None:
    """Draw the panels on a grid of rows and columns."""
    axes = list(canvas.subplots(rows, columns, squeeze=False).flat)
    styles = Styles(panels)
    for panel, axis in zip(panels, axes, strict=False):
        axis.set_title(panel.title)
        if panel.rows.empty:
            _write_reason(panel, axis)
        else:
            _draw_points(panel, axis, styles)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    share_limits(panels, axes, columns)
    add_legend(panels, canvas, styles)


def _write_reason(panel: PanelPoints, axis: Axes) -> None:
    reason = "; ".join(dict.fromkeys(panel.absent.values()))
    text = "\n".join(["not run", "", *textwrap.wrap(reason, 26, max_lines=7, placeholder=" …")])
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color="0.35", fontsize=8)
    axis.set(xticks=[], yticks=[], facecolor="0.96")
    axis.spines[:].set_visible(False)


def _draw_points(panel: PanelPoints, axis: Axes, styles: Styles) -> None:
    axis.set(xlabel=panel.panel.x, ylabel=panel.y)
    axis.ticklabel_format(useOffset=False)
    {"scatter": _scatter, "line": _lines, "effect": _effect, "sweep": _sweep}[panel.panel.kind](panel, axis, styles)
    axis.set(**{f"{letter}scale": "log" for letter in panel.panel.log})


def _scatter(panel: PanelPoints, axis: Axes, _: Styles) -> None:
    for line in (axis.axhline, axis.axvline):
        line(0, color="0.75", linewidth=0.6, zorder=0)
    for group in groups(panel):
        colour, marker = GROUPS[group][1:3]
        x, y = _numbers(panel.rows[panel.rows.group == group])
        axis.scatter(x, y, s=7, color=colour, marker=marker, alpha=0.55, linewidths=0)
    if axis.dataLim.x1 > 10_000:
        axis.locator_params(axis="x", nbins=5)  # five-digit labels would overlap


def _lines(panel: PanelPoints, axis: Axes, styles: Styles) -> None:
    for (run, group), rows in panel.rows.groupby(["run", "group"], sort=False):
        axis.plot(*_numbers(rows), **styles.curve(panel, run, group))
    for run, step in panel.marks.items():
        axis.axvline(step, color=styles.mark(panel, run), linewidth=0.7, linestyle=":", zorder=0)
    lowest, highest = axis.dataLim.intervaly
    if 0 <= lowest < highest / 2 and "y" not in panel.panel.log:
        axis.set_ylim(bottom=0)


def _effect(panel: PanelPoints, axis: Axes, _: Styles) -> None:
    for group, style in EFFECT.values():
        rows = panel.rows[panel.rows.group == group]
        for _, course in rows.groupby((rows.x.astype(int).diff() < 0).cumsum()):  # the rows of the seeds follow one another
            axis.plot(*_numbers(course), **style)


def _sweep(panel: PanelPoints, axis: Axes, _: Styles) -> None:
    rows = panel.rows.sort_values("x", key=lambda x: x.astype(float), kind="stable")
    x, y = _numbers(rows[rows.group == ""])
    axis.plot(x, y, color="#000000", marker="o", markersize=4, linewidth=1.3)
    axis.plot(*_numbers(rows[rows.group == "seed"]), color="0.55", marker="_", markersize=7, linestyle="")
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.margins(0.12, 0.2)


def _numbers(rows: pd.DataFrame) -> tuple[list[float], list[float]]:
    return [float(x) for x in rows.x], [float(y) for y in rows.y]


def share_limits(panels: list[PanelPoints], axes: list[Axes], columns: int) -> None:
    """Share axis limits between panels with the same `limits`. Label a shared axis once per row."""
    for word in dict.fromkeys(panel.panel.limits for panel in panels if panel.panel.limits):
        indices = [i for i, panel in enumerate(panels) if panel.panel.limits == word]
        shown = [axes[i].viewLim.get_points() for i in indices if not panels[i].rows.empty]
        for i in indices:
            if not panels[i].rows.empty:
                (left, low), (right, high) = np.min(shown, axis=0)[0], np.max(shown, axis=0)[1]
                axes[i].set(xlim=(left, right), ylim=(low, high))
            if i % columns and i - 1 in indices and panels[i].y == panels[i - 1].y:
                axes[i].set_ylabel("")
            if i + columns in indices:
                axes[i].set_xlabel("")
