"""The interactive chart of the curves of a task over seeds, as a Vega-Lite specification."""

import json
from pathlib import Path
from typing import Any

import altair as alt

from raretokens import csv_files

TITLES = {  # column of reports/plots/<task>.csv -> title of its curves
    "nll": "Training loss (nats per token)",
    "valid_nll": "Validation loss (nats per token)",
    "iw": "Isotropy I(W) of the embedding matrix",
    "iw_rare": "Isotropy I(W) of the rare rows",
    "rare_freq_cosine": "Mean cosine of rare and frequent rows",
    "rare_group_size": "Number of rare types according to AGG",
}


def curves_of(file: Path, models: dict[str, str]) -> tuple[list[dict[str, Any]], list[str]] | None:
    """Return the points of all curves of a task in long form, and the names of the metrics.

    `models` maps each run to its run of the first seed. Metrics are columns of the file, except those that name a point.
    """
    if not file.is_file() or not file.stat().st_size:
        return None
    rows = csv_files.read_csv(file)
    metrics = [name for name in rows if name not in ("run", "update", "family") and (rows[name] != "").any()]
    points = [
        {
            "run": row["run"],
            "model": models.get(row["run"], row["run"]),
            "family": row["family"],
            "metric": metric,
            "step": int(row["update"]),
            "value": float(f"{float(row[metric]):.4g}"),
        }
        for row in rows.to_dict("records")
        for metric in metrics
        if row[metric]
    ]
    return points, metrics


def curves_chart(rows: list[dict[str, Any]], metrics: list[str]) -> dict[str, Any]:
    """Return a chart of the curves of all models of a task: the mean over seeds, and a band from the lowest to the highest seed.

    A menu selects the metric. A click on the legend selects the family of objectives. Arguments are what curves_of() returns.
    """
    titles = [TITLES.get(name, name) for name in metrics]
    menu = alt.binding_select(options=metrics, labels=titles, name="curve ")
    metric = alt.param(name="metric", value=metrics[0], bind=menu)
    family = alt.selection_point(fields=["family"], bind="legend")
    base = (
        alt.Chart(alt.Data(values=[]))
        .transform_filter(alt.datum.metric == metric)
        .encode(
            x=alt.X("step:Q", title="training step"),
            color=alt.Color(
                "family:N", title="objective", scale=alt.Scale(scheme="tableau20"), legend=alt.Legend(columns=2)
            ),
            detail="model:N",
        )
    )
    band = base.mark_area(interpolate="linear").encode(
        y=alt.Y("min(value):Q", title=None, scale=alt.Scale(zero=False)),
        y2="max(value):Q",
        opacity=alt.condition(family, alt.value(0.25), alt.value(0.02)),
    )
    line = base.mark_line(interpolate="linear").encode(
        y=alt.Y("mean(value):Q", title=None, scale=alt.Scale(zero=False)),
        opacity=alt.condition(family, alt.value(0.9), alt.value(0.08)),
        tooltip=["model:N", "family:N", "step:Q", "mean(value):Q", "min(value):Q", "max(value):Q", "distinct(run):Q"],
    )
    title = alt.Title(alt.expr(f"({json.dumps(dict(zip(metrics, titles, strict=True)))})[metric]"), anchor="start")
    chart = alt.layer(band, line.add_params(family)).add_params(metric).properties(title=title)
    found = chart.properties(width="container", height=380, background="transparent").to_dict()
    return found | {"data": {"values": rows}}  # added last, because Altair would check each point against its schema
