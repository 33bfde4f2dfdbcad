"""Interactive charts of the site as Vega-Lite specifications: the loss of a run and the curves of a task."""

from typing import Any

import altair as alt

PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]  # Okabe and Ito


def loss_chart(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a chart of the negative log-likelihood over training steps, with a colour per run and dashes for validation."""
    chart = alt.Chart(alt.Data(values=points)).mark_line(interpolate="linear")
    return _finished(
        chart.encode(
            x=alt.X("step:Q", title="training step"),
            y=alt.Y("nll:Q", title="NLL (nats per token)", scale=alt.Scale(zero=False)),
            color=alt.Color("run:N", scale=alt.Scale(range=PALETTE)),
            strokeDash=alt.StrokeDash("split:N", title="split"),
            tooltip=["run:N", "split:N", "step:Q", "nll:Q"],
        ),
        height=220,
    )


def curves_chart(rows: list[dict[str, Any]], metrics: list[str]) -> dict[str, Any]:
    """Return a chart of the curves of all runs of a task.

    A menu selects the metric. A click on the legend selects the family of objectives.
    """
    metric = alt.param(name="metric", value=metrics[0], bind=alt.binding_select(options=metrics, name="metric "))
    family = alt.selection_point(fields=["family"], bind="legend")
    chart = (
        alt.Chart(alt.Data(values=rows))
        .transform_filter(alt.datum.metric == metric)
        .mark_line(interpolate="linear")
        .encode(
            x=alt.X("step:Q", title="training step"),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "family:N", title="objective", scale=alt.Scale(scheme="tableau20"), legend=alt.Legend(columns=2)
            ),
            detail="run:N",
            opacity=alt.condition(family, alt.value(0.9), alt.value(0.08)),
            tooltip=["run:N", "family:N", "metric:N", "step:Q", "value:Q"],
        )
        .add_params(metric, family)
    )
    return _finished(chart, height=380)


def _finished(chart: alt.Chart, height: int) -> dict[str, Any]:
    return chart.properties(width="container", height=height, background="transparent").to_dict()
