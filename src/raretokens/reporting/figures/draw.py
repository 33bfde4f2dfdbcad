"""One house style for all figures: the groups always in the same colours, legends below the panels."""

import textwrap
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from raretokens.reporting.figures.panel_points import PanelPoints

# Okabe and Ito's colours, safe for colour-blind readers; markers and dashes tell them apart in grey
GROUPS = {
    "freq": ("frequent", "#0072B2", "o", "solid"),
    "med": ("medium", "#009E73", "s", "dashed"),
    "rare": ("rare", "#D55E00", "^", "dashdot"),
    "total": ("all", "#000000", "D", "dotted"),
}
CURVES = [
    ("#000000", "solid"),
    ("#CC79A7", "dashed"),
    ("#56B4E9", "dashdot"),
    ("#E69F00", (0, (1, 1))),
    ("#666666", (0, (5, 1, 1, 1, 1, 1))),
]
CROWD = 2500  # points of a figure above which clouds are stored as an image, to keep the SVG small
WIDEST = 5  # entries in a row of the legend
BLANK = Line2D([], [], linestyle="none")


def figure(panels: list[PanelPoints], canvas: Canvas, rows: int, columns: int) -> None:
    axes = list(canvas.subplots(rows, columns, squeeze=False).flat)
    crowded = sum(len(panel.rows) for panel in panels if panel.panel.kind == "scatter") > CROWD
    legends = list(dict.fromkeys(run for part in panels if part.panel.kind == "line" for run in part.panel.runs))
    styles = dict(zip(legends, CURVES * len(legends), strict=False))  # a run looks alike in all panels
    for panel, axis in zip(panels, axes, strict=False):
        _panel(panel, axis, styles, crowded)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    _share_limits(panels, axes, columns)
    entries: dict[str, Line2D] = {}
    for panel in panels:
        entries |= {label: handle for label, handle in _legend(panel, styles) if label not in entries}
    if entries:
        canvas.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=min(WIDEST, len(entries)),
            handlelength=2.2,
        )


def _panel(panel: PanelPoints, axis: Axes, styles: dict, crowded: bool) -> None:
    axis.set_title(panel.title)
    if not panel.rows:
        why = panel.panel.reason or "; ".join(dict.fromkeys(panel.absent.values()))
        text = "\n".join(["not run", "", *textwrap.wrap(why, 26, max_lines=7, placeholder=" …")])
        axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color="0.35", fontsize=8)
        axis.set(xticks=[], yticks=[], facecolor="0.96")
        axis.spines[:].set_visible(False)
        return
    axis.set(xlabel=panel.panel.x, ylabel=panel.y)
    axis.ticklabel_format(useOffset=False)
    draw = {"scatter": _scatter, "line": _lines, "sweep": _sweep}[panel.panel.kind]
    draw(panel, axis, styles, crowded)
    if "x" in panel.panel.log:
        axis.set_xscale("log")
    if "y" in panel.panel.log:
        axis.set_yscale("log")


def _scatter(panel: PanelPoints, axis: Axes, styles: dict, crowded: bool) -> None:
    for line in (axis.axhline, axis.axvline):
        line(0, color="0.75", linewidth=0.6, zorder=0)
    for group in _groups(panel):
        _, colour, marker, _ = GROUPS[group]
        x, y = _columns([row for row in panel.rows if row["group"] == group])
        axis.scatter(x, y, s=7, color=colour, marker=marker, alpha=0.55, linewidths=0, rasterized=crowded)


def _lines(panel: PanelPoints, axis: Axes, styles: dict, crowded: bool) -> None:
    for (run, group), rows in _curves(panel).items():
        colour, dashes = GROUPS[group][1::2] if _by_group(panel) else styles[run]
        axis.plot(*_columns(rows), color=colour, linestyle=dashes, linewidth=1.3)
    for run, update in panel.marks.items():
        axis.axvline(
            update, color="0.5" if _by_group(panel) else styles[run][0], linewidth=0.7, linestyle=":", zorder=0
        )
    lowest, highest = axis.dataLim.intervaly
    if 0 <= lowest < highest / 2 and "y" not in panel.panel.log:
        axis.set_ylim(bottom=0)


def _sweep(panel: PanelPoints, axis: Axes, styles: dict, crowded: bool) -> None:
    x, y = _columns(sorted(panel.rows, key=lambda row: float(row["x"])))
    axis.plot(x, y, color="#000000", marker="o", markersize=4, linewidth=1.3)
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.margins(0.12, 0.2)


def _share_limits(panels: list[PanelPoints], axes: list[Axes], columns: int) -> None:
    """The same limits for panels that are to be compared; an axis is named once in a row of them."""
    for word in dict.fromkeys(panel.panel.limits for panel in panels if panel.panel.limits):
        places = [i for i, panel in enumerate(panels) if panel.panel.limits == word]
        drawn = [axes[i] for i in places if panels[i].rows]
        lows, highs = ([axis.viewLim.get_points()[end] for axis in drawn] for end in (0, 1))
        for axis in drawn:
            axis.set(
                xlim=(min(x for x, _ in lows), max(x for x, _ in highs)),
                ylim=(min(y for _, y in lows), max(y for _, y in highs)),
            )
        for i in places:
            if i % columns and i - 1 in places and panels[i].y == panels[i - 1].y:
                axes[i].set_ylabel("")
            if i + columns in places:
                axes[i].set_xlabel("")


def _legend(panel: PanelPoints, styles: dict) -> Iterator[tuple[str, Line2D]]:
    if panel.rows and panel.panel.kind == "scatter":
        for group in _groups(panel):
            name, colour, marker, _ = GROUPS[group]
            yield name, Line2D([], [], color=colour, marker=marker, markersize=5, linestyle="none")
    if panel.rows and panel.panel.kind == "line" and len(curves := _curves(panel)) > 1:
        for run, group in curves:
            colour, dashes = GROUPS[group][1::2] if _by_group(panel) else styles[run]
            label = GROUPS[group][0] if _by_group(panel) else run
            yield label, Line2D([], [], color=colour, linestyle=dashes, linewidth=1.3)
    if panel.rows:
        yield from ((f"{run}: not run", BLANK) for run in panel.absent)


def _by_group(panel: PanelPoints) -> bool:
    """Whether colours stand for groups: curves of one run. Curves of several runs are of one group."""
    return len(panel.panel.runs) == 1 and len({row["group"] for row in panel.rows}) > 1


def _groups(panel: PanelPoints) -> list[str]:
    found = {row["group"] for row in panel.rows}
    return [group for group in GROUPS if group in found]


def _curves(panel: PanelPoints) -> dict[tuple[str, str], list[dict[str, str]]]:
    curves: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in panel.rows:
        curves.setdefault((row["run"], row["group"]), []).append(row)
    return curves


def _columns(rows: list[dict[str, str]]) -> tuple[list[float], list[float]]:
    return [float(row["x"]) for row in rows], [float(row["y"]) for row in rows]
