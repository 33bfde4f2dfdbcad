"""Figures: the points as CSV, which is what the report diff compares, and a picture of them as SVG and PNG."""

import csv
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from raretokens.tables.declarations import Figure, Panel
from raretokens.tables.scored import Scores

COLOURS = {"freq": "#0072B2", "med": "#009E73", "rare": "#D55E00"}  # Okabe and Ito's, safe for colour-blind readers
NAMES = {"freq": "frequent", "med": "medium", "rare": "rare"}
CURVES = ["#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00"]
STYLE = {
    "svg.hashsalt": "raretokens",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
HEADER = ["panel", "run", "group", "x", "y"]


def points(figure: Figure, scores: Scores) -> list[dict[str, str]]:
    """Points of all panels, as the run files hold them; run is the legend's name."""
    found = []
    for panel in figure.panels:
        for legend, names in panel.runs.items():
            stem = scores.choose(names)
            if stem is None or not scores.points(stem).is_file():
                continue
            with open(scores.points(stem), encoding="utf-8", newline="") as file:
                found += [
                    {"panel": panel.title, "run": legend, **{key: row[key] for key in ("group", "x", "y")}}
                    for row in csv.DictReader(file)
                    if row["series"] == panel.series
                ]
    return found


def write(figure: Figure, rows: list[dict[str, str]], into: Path, name: str) -> None:
    """<name>.csv, <name>.svg and <name>.png; the same points give the same bytes."""
    with open(into / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(3.6 * len(figure.panels) + 0.6, 3.6), layout="constrained")
        axes = canvas.subplots(1, len(figure.panels), squeeze=False)[0]
        for panel, axis in zip(figure.panels, axes, strict=True):
            _draw(panel, [row for row in rows if row["panel"] == panel.title], axis)
        canvas.savefig(into / f"{name}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(into / f"{name}.png", dpi=110, metadata={"Software": None})


def _draw(panel: Panel, rows: list[dict[str, str]], axis: Axes) -> None:
    axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if not rows:
        axis.text(0.5, 0.5, "not run", transform=axis.transAxes, ha="center", va="center", color="0.4")
        return
    if panel.kind == "scatter":
        for group, colour in COLOURS.items():
            x, y = _columns([row for row in rows if row["group"] == group])
            axis.scatter(x, y, s=4, color=colour, alpha=0.5, linewidths=0, label=NAMES[group])
        axis.axhline(0, color="0.8", linewidth=0.6, zorder=0)
        axis.axvline(0, color="0.8", linewidth=0.6, zorder=0)
        axis.legend(markerscale=3, handletextpad=0.1)
        return
    legends = list(dict.fromkeys(row["run"] for row in rows))
    for legend, colour in zip(legends, CURVES, strict=False):
        axis.plot(*_columns([row for row in rows if row["run"] == legend]), color=colour, linewidth=1.2, label=legend)
    axis.set_ylim(bottom=0)
    if len(legends) > 1:
        axis.legend()


def _columns(rows: list[dict[str, str]]) -> tuple[list[float], list[float]]:
    return [float(row["x"]) for row in rows], [float(row["y"]) for row in rows]
