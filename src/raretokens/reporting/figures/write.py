"""Figures: the points as CSV, which is what the report diff compares, and a picture of them as SVG and PNG."""

import csv
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from raretokens.reporting.figures import draw
from raretokens.reporting.figures.panel_points import PanelPoints

STYLE = {
    "svg.hashsalt": "raretokens",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
}
HEADER = ["panel", "run", "group", "x", "y"]
WIDTH = 7.6  # inches; 836 pixels, which a page of GitHub shows as they are
COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2}
HEIGHTS = {1: 3.3, 2: 2.9, 3: 2.5}  # inches of a row, by the number of columns


def write(panels: list[PanelPoints], into: Path, name: str) -> None:
    """<name>.csv, <name>.svg and <name>.png; the same points give the same bytes."""
    with open(into / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for panel in panels for row in panel.rows)
    columns = COLUMNS.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        size = (WIDTH if columns > 1 else 0.7 * WIDTH, rows * HEIGHTS[columns] + 0.3)
        canvas = Canvas(figsize=size, dpi=110, layout="constrained")
        draw.figure(panels, canvas, rows, columns)
        canvas.draw_without_rendering()  # places everything once; each of the two files would do it again
        canvas.set_layout_engine("none")
        canvas.savefig(into / f"{name}.svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(into / f"{name}.png", metadata={"Software": None})
