"""Figures of measured tables, in the colours of the reports: projection, spectrum, length against frequency."""

import io
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from raretokens.report.figure_styles import GROUPS, STYLE
from raretokens.tools.measure.measurement import Measured

CURVES = ("#000000", "#CC79A7", "#56B4E9", "#E69F00", "#666666")
TITLES = {
    "projection": "Rows along the first two right singular vectors",
    "singular_values": "Singular values over the largest",
    "norm": "Length of rows against frequency",
}
AXES = {"projection": ("first", "second"), "norm": ("log10 of relative frequency", "length")}
COLUMNS, WIDTH, HEIGHT = 3, 7.6, 2.7  # panels in a row; inches


def draw(measured: Sequence[Measured]) -> dict[str, bytes]:
    """Name -> SVG of each figure that has points."""
    with matplotlib.rc_context(STYLE):
        figures = {name: _clouds(measured, name) for name in AXES} | {"singular_values": _spectra(measured)}
        return {name: _svg(canvas) for name, canvas in figures.items() if canvas}


def _clouds(measured: Sequence[Measured], name: str) -> Canvas | None:
    shown = [one for one in measured if any(series == name for series, *_ in one.points)]
    if not shown:
        return None
    columns = min(COLUMNS, max(2, len(shown)))
    rows = -(-len(shown) // columns)
    canvas = Canvas(figsize=(WIDTH, rows * HEIGHT + 0.3), dpi=110, layout="constrained")
    axes = list(canvas.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for one, axis in zip(shown, axes, strict=False):
        axis.set(title=one.title, xlabel=AXES[name][0], ylabel=AXES[name][1])
        _cloud(one, axis, name)
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=3, markerscale=2)
    return canvas


def _cloud(one: Measured, axis: Axes, name: str) -> None:
    for group, (label, colour, marker, _) in GROUPS.items():
        points = [(x, y) for series, of, x, y in one.points if (series, of) == (name, group)]
        if points:
            axis.scatter(
                *zip(*points, strict=True), s=7, color=colour, marker=marker, alpha=0.55, linewidths=0, label=label,
                rasterized=True,
            )  # fmt: skip


def _spectra(measured: Sequence[Measured]) -> Canvas:
    canvas = Canvas(figsize=(0.7 * WIDTH, HEIGHT + 0.6), dpi=110, layout="constrained")
    axis = canvas.subplots()
    for number, one in enumerate(measured):
        points = [(x, y) for series, _, x, y in one.points if series == "singular_values"]
        axis.plot(*zip(*points, strict=True), color=CURVES[number % len(CURVES)], linewidth=1.3, label=one.title)
    axis.set(xlabel="rank", ylabel="over the largest", ylim=(0, None))
    canvas.legend(loc="outside lower center", ncols=2)
    return canvas


def _svg(canvas: Canvas) -> bytes:
    drawn = io.BytesIO()
    canvas.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()
