"""Write the files of a figure: its points as CSV, which the report diff compares, and a picture.

All figures have the same fonts, colours, dashes and legends.
"""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.figure_style import CURVES, GROUPS, STYLE
from raretokens.files import atomic_write, write_text
from reproduction.papers.table import Panel
from reproduction.report.figure_points import HEADER, PanelPoints

METADATA = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}  # removes metadata that would differ each time
NEEDLESS = re.compile(rb"(?<=\d\d\.\d\d)\d+|^ +", re.MULTILINE)  # in an SVG: digits after the second decimal, and indentation
WIDTH = 7.6  # inches; 836 pixels, which fit a page on GitHub
COLUMNS_OF = {1: 1, 2: 2, 3: 3, 4: 2}
HEIGHTS = {1: 3.3, 2: 2.9, 3: 2.5}  # inches per row, by the number of columns
WIDEST = 5  # entries per row of the legend
BLANK = Line2D([], [], linestyle="none")
EFFECT: dict[str, tuple[str, dict[str, Any]]] = {  # legend -> group of the points, style
    "threshold": ("threshold", {"color": "0.75", "linestyle": "solid", "linewidth": 0.8}),
    "reported": ("reported", {"color": "#D55E00", "linestyle": (0, (4, 2)), "linewidth": 1.1}),
    "one seed": ("seed", {"color": "0.55", "linestyle": "solid", "linewidth": 0.7}),
    "mean over seeds": ("", {"color": "#000000", "linestyle": "solid", "linewidth": 1.4}),
}


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


class Styles:
    """Colours and dashes of the curves of a figure."""

    def __init__(self, panels: list[PanelPoints]) -> None:
        legends = dict.fromkeys(run for part in panels if part.panel.kind == "line" for run in part.panel.runs)
        self._runs = dict(zip(legends, CURVES * len(legends), strict=False))

    def curve(self, panel: PanelPoints, run: str, group: str) -> dict[str, Any]:
        colour, dashes = GROUPS[group][1::2] if _by_group(panel) else self._runs[run]
        return {"color": colour, "linestyle": dashes, "linewidth": 1.3}

    def mark(self, panel: PanelPoints, run: str) -> str:
        """Return the colour of the vertical line at a run's training step."""
        return "0.5" if _by_group(panel) else self._runs[run][0]


def _by_group(panel: PanelPoints) -> bool:
    """Whether colours stand for groups, as in panels of one run. In panels of several runs, colours stand for runs."""
    return len(panel.panel.runs) == 1 and panel.rows.group.nunique() > 1


def _groups(panel: PanelPoints) -> list[str]:
    return [group for group in GROUPS if group in set(panel.rows.group)]


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
    _add_legend(panels, canvas, styles)


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
    for group in _groups(panel):
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


def _add_legend(panels: list[PanelPoints], canvas: Canvas, styles: Styles) -> None:
    entries: dict[str, Line2D] = {}
    for panel in panels:
        for label, line in _entries(panel, styles) if not panel.rows.empty else ():
            entries.setdefault(label, line)
    if entries:
        columns = min(WIDEST, len(entries))
        canvas.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns, handlelength=2.2
        )


def _entries(panel: PanelPoints, styles: Styles) -> Iterator[tuple[str, Line2D]]:
    curves = panel.rows[["run", "group"]].drop_duplicates()
    if panel.panel.kind == "effect":
        shown = set(panel.rows.group)
        yield from ((name, Line2D([], [], **style)) for name, (group, style) in EFFECT.items() if group in shown)
        return  # an empty panel shows the reason itself
    if panel.panel.kind == "scatter":
        for name, colour, marker, _ in map(GROUPS.__getitem__, _groups(panel)):
            yield name, Line2D([], [], color=colour, marker=marker, markersize=5, linestyle="none")
    elif panel.panel.kind == "line" and len(curves) > 1:  # a single curve needs no entry
        for run, group in curves.itertuples(index=False):
            yield GROUPS[group][0] if _by_group(panel) else run, Line2D([], [], **styles.curve(panel, run, group))
    yield from ((f"{run}: not run", BLANK) for run in panel.absent)
