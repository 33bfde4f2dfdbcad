"""Points of a figure: a panel has those of a series of runs or, in a sweep, one of each run."""

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from raretokens.evidence.scores import Scores, Value
from raretokens.papers.declarations import Declarations
from raretokens.papers.figure import Figure, Panel
from raretokens.reporting.figures.effect_points import effect_points

HEADER = ["panel", "run", "group", "x", "y"]


class RunPoints(NamedTuple):
    """What a run has of a panel."""

    rows: pd.DataFrame = pd.DataFrame(columns=HEADER[2:], dtype=str)
    of: str = ""  # what the name of an nth series ends in
    mark: float | None = None  # an update
    absent: str = ""  # why there are no points


@dataclass
class PanelPoints:
    """A panel with its points; {of} is filled in title and y."""

    panel: Panel
    title: str
    y: str
    rows: pd.DataFrame  # HEADER, as text
    absent: dict[str, str]  # legend -> why it has no points
    marks: dict[str, float]  # legend -> update


def figure_points(figure: Figure, scores: dict[str, Scores], declared: Declarations) -> list[PanelPoints]:
    return [_panel_points(panel, scores[panel.task or figure.task], declared) for panel in figure.panels]


def _panel_points(panel: Panel, scores: Scores, declared: Declarations) -> PanelPoints:
    if panel.kind == "sweep":
        return _sweep_points(panel, scores)
    if panel.kind == "effect":
        return _effect_points(panel, scores, declared)
    runs = {legend: _run_points(panel, scores, names) for legend, names in panel.runs.items()}
    of = next((run.of for run in runs.values() if run.of), "…")
    title, y = (text.replace("{of}", of) for text in (panel.title, panel.y))
    rows = [run.rows.assign(panel=title, run=legend) for legend, run in runs.items()]
    return PanelPoints(
        panel,
        title,
        y,
        pd.concat([pd.DataFrame(columns=HEADER, dtype=str), *rows])[HEADER],
        {legend: run.absent for legend, run in runs.items() if run.absent},
        {legend: run.mark for legend, run in runs.items() if run.mark},
    )


def _run_points(panel: Panel, scores: Scores, names: list[str]) -> RunPoints:
    run = scores.choose(names, data=panel.data)
    if run is None:
        where = "is scored" if panel.data else "is on the run sheet"
        return RunPoints(absent=f"none of {', '.join(names)} {where}")
    points = _series_points(panel, scores, run)
    if points.rows.empty:
        return points._replace(absent=f"{run} has {_what(panel)}")
    return points._replace(mark=scores.option(run, panel.mark) if panel.mark else None)


def _what(panel: Panel) -> str:
    if panel.nth:
        return f"fewer than {panel.nth} series {panel.series}…"
    return f"no {panel.series or panel.metric}"


def _series_points(panel: Panel, scores: Scores, run: str) -> RunPoints:
    points = scores.points(run)
    ending = _ending(panel, list(points.series.unique()))
    if ending is None:
        return RunPoints()
    rows = points[points.series == f"{panel.series}{ending}"]
    if panel.groups is not None:
        rows = rows[rows.group.isin(panel.groups)]
    return RunPoints(rows[HEADER[2:]], ending)


def _ending(panel: Panel, series: list[str]) -> str | None:
    """What the name of the panel's series ends in, where it is the nth of several; None if there are fewer."""
    if not panel.nth:
        return ""
    start = panel.series or ""
    endings = [name.removeprefix(start) for name in series if name.startswith(start)]
    if all(map(str.isdigit, endings)):  # updates
        endings.sort(key=int)
    return endings[panel.nth - 1] if panel.nth <= len(endings) else None


def _effect_points(panel: Panel, scores: Scores, declared: Declarations) -> PanelPoints:
    claim = declared.claims[panel.claim or ""]
    rows = effect_points(claim, scores, declared).assign(panel=panel.title, run=panel.claim)
    runs = " or ".join(dict.fromkeys(name for side in claim.sides.values() for name in side.runs))
    absent = {panel.claim or "": f"no curves of {runs}"} if rows.empty else {}
    return PanelPoints(panel, panel.title, panel.y, rows[HEADER], absent, {})


def _sweep_points(panel: Panel, scores: Scores) -> PanelPoints:
    """A point for each value of the option that runs were trained with, whatever they are called.

    Its y is the mean over the seeds that all of them have; group `seed`: each of these alone.
    """
    found: dict[float, tuple[str, Value]] = {}
    absent = {}
    for legend, names in panel.runs.items():
        run = scores.choose(names)
        value = scores.value(run, panel.metric or "") if run else None
        option = scores.option(run, panel.option or "") if run else None
        if run is None or value is None or option is None:
            absent[legend] = f"none of {', '.join(names)} is scored"
        elif option not in found or len(found[option][1].seeds) < len(value.seeds):
            found[option] = f"{panel.option} {option:g}", value
    common = frozenset.intersection(*(frozenset(value.seeds) for _, value in found.values())) if found else frozenset()
    rows = [
        {"panel": panel.title, "run": legend, "group": group, "x": f"{option:g}", "y": f"{y:.6g}"}
        for option, (legend, value) in found.items()
        if (kept := value.of(common) or value)
        for group, y in [("", kept.mean), *(("seed", y) for y in kept.values if len(kept.values) > 1)]
    ]
    return PanelPoints(panel, panel.title, panel.y, pd.DataFrame(rows, columns=HEADER, dtype=str), absent, {})
