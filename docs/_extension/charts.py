"""Interactive charts as Vega-Lite specifications: the curves of a task over seeds, and the changes by all runs of a task."""

import json
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

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


VERDICTS = {"better": ("#2a86c8", "circle"), "worse": ("#d9651a", "cross")}  # others are grey diamonds
GREY, GREEN = "#888888", "#009e73"
FAR = 4.0  # a difference is written instead of drawn if it is this many times as large as any other
NUMBERS = {"value": "measured", "low": "low", "high": "high", "logit bias": "logit_bias_baseline"}


def changes_chart(rows: pd.DataFrame) -> dict[str, Any]:
    """Return a chart of the changes by all runs of a task: a line is an interval, and a green tick the logit-bias baseline.

    A menu selects the metric. `rows`: lines of reports/methods.csv of one task and kind of effect.
    """
    is_ratio = rows.kind.iloc[0] == "ratio"
    over_test_set = {end: rows[end].where(rows[end] != "", rows[f"test_{end}"]) for end in ("low", "high")}  # with one seed
    numbers = {name: rows.assign(**over_test_set)[column] for name, column in NUMBERS.items()}
    points = pd.DataFrame(numbers | {name: rows[name] for name in ("run", "title", "verdict", "seeds")}).to_dict("records")
    values = [{key: text for key, text in one.items() if text} for one in points]
    values = [one | {key: float(one[key]) for key in NUMBERS if key in one} for one in values]
    far = set() if is_ratio else _far(rows.reset_index(drop=True))
    values = [_beyond(one) if place in far else one for place, one in enumerate(values)]
    titles, runs, verdicts = (list(dict.fromkeys(rows[name])) for name in ("title", "run", "verdict"))
    styles = [VERDICTS.get(name, (GREY, "diamond")) for name in verdicts]
    metric = alt.param(name="metric", value=titles[0], bind=alt.binding_select(options=titles, name="metric "))
    scale = alt.Scale(type="log", nice=False) if is_ratio else alt.Scale(zero=False, nice=False)
    axis = alt.Axis(title=f"{'ratio to' if is_ratio else 'difference from'} maximum likelihood", format="~r", tickCount=6)
    data = alt.Data(values=[])  # one for all layers, so that the chart's own data replace it
    base = alt.Chart(data).transform_filter(alt.datum.title == metric).encode(
        y=alt.Y("run:N", sort=runs, title=None), x=alt.X("value:Q", scale=scale, axis=axis),
        color=alt.Color("verdict:N", title=None, scale=alt.Scale(domain=verdicts, range=[colour for colour, _ in styles]),
                        legend=alt.Legend(orient="top", columns=2)),
    )  # fmt: skip
    shape = alt.Shape("verdict:N", title=None, scale=alt.Scale(domain=verdicts, range=[shape for _, shape in styles]))
    once = alt.Chart(data).transform_aggregate(rows="count()")
    neutral = once.mark_rule(color=GREY, strokeDash=[3, 3]).encode(x=alt.datum(float(is_ratio), type="quantitative"))
    point = base.mark_point(filled=True, size=45, opacity=1).encode(
        shape=shape, tooltip=["run:N", "verdict:N", *(f"{name}:Q" for name in NUMBERS), "seeds:N"]
    )
    interval = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    tick = base.transform_filter("isValid(datum['logit bias'])").mark_tick(color=GREEN, thickness=2, size=12)
    bias = tick.encode(x="logit bias:Q", color=alt.value(GREEN))
    words = base.transform_filter("isValid(datum.beyond)").mark_text(align="left", dx=6, color=GREY)
    beyond = words.encode(x=alt.datum(float(is_ratio), type="quantitative"), text="beyond:N", color=alt.value(GREY))
    chart = alt.layer(neutral, interval, bias, point, beyond).add_params(metric).resolve_scale(color="shared", shape="shared")
    found = chart.properties(width="container", height=alt.Step(15), background="transparent").to_dict()
    return found | {"data": {"values": values}}


def _far(rows: pd.DataFrame) -> set[int]:
    """Return the places of the differences that would make all others of their metric too small to see."""
    sizes = (own.measured.astype(float).abs().sort_values() for _, own in rows.groupby("title"))
    return {int(size.index[-1]) for size in sizes if len(size) > 2 and size.iloc[-1] > FAR * size.iloc[-2] > 0}


def _beyond(point: dict[str, Any]) -> dict[str, Any]:
    """Return a point that the chart writes as text, because it lies beyond the axis."""
    about = {name: text for name, text in point.items() if name not in NUMBERS}
    return about | {"beyond": f"beyond the axis: {point['value']:+.3g}"}
