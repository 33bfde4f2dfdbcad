"""Measurements as one HTML page, Markdown, CSV, JSON and figures."""

import base64
import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raretokens.figure_style import CURVES, GROUPS, STYLE
from raretokens.files import atomic_write, write_text
from raretokens.measure.hidden_states import LAST, PREFIX
from raretokens.measure.measurement import Measurement
from raretokens.measure.output import (
    LAYER_COLUMNS,
    ModelComparison,
    interval_text,
    layer_rows,
    metric_rows,
    signed_numbers,
    to_text,
)
from raretokens.metrics.score_files import layout

MAX_ROWS = 50  # candidates on the page and in Markdown; the JSON has all
HEADLINES = (
    "isotropy.total", "isotropy_unit_rms.total", "isotropy.rare", "isotropy_unit_rms.rare", "mean_cosine", "rare_freq_cosine",
    "effective_rank.total", "ppl.total", "ppl.rare", "uniq.total", "uniq.rare", "norm_by_frequency.pearson",
)  # fmt: skip
TITLES = {
    "projection": "Rows along the first two right singular vectors",
    "singular_values": "Singular values over the largest",
    "norm": "Length of rows against frequency",
    "hidden_states": "Hidden states by layer: mean cosine, and share of the variance in the first direction",
}
AXES = {"projection": ("first", "second"), "norm": ("log10 of relative frequency", "length")}
COLUMNS, WIDTH, HEIGHT = 3, 7.6, 2.7  # panels per row; inches


def write(measurements: Sequence[Measurement], folder: Path, comparisons: Sequence[ModelComparison] = ()) -> None:
    """Write index.html (self-contained), measure.md, measure.csv, measure.json, and an SVG for each figure."""
    figures = draw(measurements)
    for name, svg in figures.items():
        with atomic_write(folder / f"{name}.svg") as part:
            part.write_bytes(svg)
    trees = [_to_tree(one) for one in measurements]
    write_text(folder / "measure.json", json.dumps(trees, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "measure.csv", _to_csv(measurements))
    rows = metric_rows(measurements)
    context = {
        "measured": measurements,
        "rows": rows,
        "layers": [(one.title, layer_rows(one)) for one in measurements if layer_rows(one)],
        "layer_columns": list(LAYER_COLUMNS.values()),
        "headlines": [row for path in HEADLINES for row in rows if row["path"] == path],
        "signatures": dict.fromkeys((path, how) for one in measurements for path, (_, how) in one.metrics.items()),
        "notes": [*dict.fromkeys((one.model, note) for one in measurements for note in one.notes)],
        "comparisons": comparisons,
        "titles": TITLES,
        "shown": MAX_ROWS,
    }
    images = {
        name: "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii") for name, svg in figures.items()
    }
    write_text(folder / "measure.md", _template("measure.md").render(context, images=list(figures)))
    write_text(folder / "index.html", _template("measure.html").render(context, images=images))


def _to_tree(one: Measurement) -> dict[str, Any]:
    tree = layout({"model": one.model, "embedding": one.embedding, "facts": one.facts}, one.metrics)
    kept = {key: tree[key] for key in ("model", "embedding", "facts", "metrics", "signatures")}
    return kept | {"notes": one.notes, "candidates": one.candidates}


def _to_csv(measurements: Sequence[Measurement]) -> str:
    """Return a CSV line for each number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "embedding", "metric", "value", "signature"))
    writer.writerows((one.model, one.embedding, *row) for one in measurements for row in signed_numbers(one.metrics))
    return text.getvalue()


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raretokens.measure"), autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.globals |= {"text": to_text, "interval": interval_text}
    return environment.get_template(name)


# Figures in the colours of the reports.


def draw(measurements: Sequence[Measurement]) -> dict[str, bytes]:
    """Draw each figure that has points. Return its SVG by name."""
    with matplotlib.rc_context(STYLE):
        figures = {name: _draw_clouds(measurements, name) for name in AXES}
        figures["singular_values"] = _draw_spectra(measurements)
        figures["hidden_states"] = _draw_layers(measurements)
        return {name: _to_svg(figure) for name, figure in figures.items() if figure}


def _draw_clouds(measurements: Sequence[Measurement], name: str) -> Figure | None:
    shown = [one for one in measurements if any(series == name for series, *_ in one.points)]
    if not shown:
        return None
    columns = min(COLUMNS, max(2, len(shown)))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(WIDTH, rows * HEIGHT + 0.3), dpi=110, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for one, axis in zip(shown, axes, strict=False):
        axis.set(title=one.title, xlabel=AXES[name][0], ylabel=AXES[name][1])
        _draw_cloud(one, axis, name)
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, markerscale=2)
    return figure


def _draw_cloud(one: Measurement, axis: Axes, name: str) -> None:
    for group, (label, colour, marker, _) in GROUPS.items():
        points = [(x, y) for series, of, x, y in one.points if (series, of) == (name, group)]
        if points:
            axis.scatter(
                *zip(*points, strict=True), s=7, color=colour, marker=marker, alpha=0.55, linewidths=0, label=label,
                rasterized=True,
            )  # fmt: skip


def _draw_spectra(measurements: Sequence[Measurement]) -> Figure | None:
    if not any(one.points for one in measurements):
        return None
    figure = Figure(figsize=(0.7 * WIDTH, HEIGHT + 0.6), dpi=110, layout="constrained")
    axis = figure.subplots()
    for number, one in enumerate(measurements):
        points = [(x, y) for series, _, x, y in one.points if series == "singular_values"]
        colour, _ = CURVES[number % len(CURVES)]
        axis.plot(*(zip(*points, strict=True) if points else ([], [])), color=colour, linewidth=1.3, label=one.title)
    axis.set(xlabel="rank", ylabel="over the largest", ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_layers(measurements: Sequence[Measurement]) -> Figure | None:
    panels = {"mean_cosine": "mean cosine", "first_direction": "share of variance"}
    shown = [one for one in measurements if any(f"{PREFIX}{name}" in one.metrics for name in panels)]
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.3), dpi=110, layout="constrained")
    for (name, label), axis in zip(panels.items(), figure.subplots(1, 2), strict=True):
        for number, one in enumerate(shown):
            values = one.metrics.get(f"{PREFIX}{name}", ({}, ""))[0]
            numbered = [int(layer) for layer in values if layer != LAST]
            layers = numbered + [max(numbered, default=-1) + 1] * (LAST in values)
            axis.plot(layers, list(values.values()), color=CURVES[number % len(CURVES)][0], marker=".", label=one.title)
        axis.set(xlabel="layer", ylabel=label, ylim=(min(0, axis.get_ylim()[0]), None))
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _to_svg(figure: Figure) -> bytes:
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return svg.getvalue()
