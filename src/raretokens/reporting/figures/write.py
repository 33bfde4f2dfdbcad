"""The files of a figure: its points as CSV, which is what the report diff compares, and a picture of them."""

from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure as Canvas

from raretokens.files import whole, write_text
from raretokens.reporting.figures.draw import draw
from raretokens.reporting.figures.look import STYLE
from raretokens.reporting.figures.panel_points import HEADER, PanelPoints

PICTURES = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}  # kind -> what would differ each time
WIDTH = 7.6  # inches; 836 pixels, which a page of GitHub shows as they are
COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2}
HEIGHTS = {1: 3.3, 2: 2.9, 3: 2.5}  # inches of a row, by the number of columns


def write_figure(panels: list[PanelPoints], into: Path, name: str) -> None:
    """<name>.csv, <name>.svg and <name>.png; the same points give the same bytes."""
    points = pd.concat([panel.rows for panel in panels])
    write_text(into / f"{name}.csv", points.to_csv(columns=HEADER, index=False, lineterminator="\n"))
    columns = COLUMNS.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(STYLE):
        size = (WIDTH if columns > 1 else 0.7 * WIDTH, rows * HEIGHTS[columns] + 0.3)
        canvas = Canvas(figsize=size, dpi=110, layout="constrained")
        draw(panels, canvas, rows, columns)
        canvas.draw_without_rendering()  # places everything once; each of the two files would do it again
        canvas.set_layout_engine("none")
        for kind, metadata in PICTURES.items():
            with whole(into / f"{name}.{kind}") as part:
                canvas.savefig(part, format=kind, metadata=metadata)
