"""Points of the panels of a figure: a series of runs, a sweep over an option of runs, or the effect of a claim."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pandas as pd

from raretokens.claims.effects import combined_effect, from_additive, to_additive
from raretokens.claims.scores import Value
from reproduction.papers.claim import Claim, ClaimSide
from reproduction.papers.declarations import Declarations
from reproduction.papers.table import Figure, Panel
from reproduction.papers.task_scores import TaskScores
from reproduction.papers.verdicts import nearest, reported_effect

ON_CURVES = {"ppl.total": "nll.valid"}  # test metrics are measured once, validation metrics during training
MEAN, SEED, REPORTED, THRESHOLD = "", "seed", "reported", "threshold"  # groups of the points


def effect_points(claim: Claim, scores: TaskScores, declared: Declarations) -> pd.DataFrame:
    """Return the effect of a claim during training: group, x (training step) and y, as text.

    The groups are the mean over seeds, each seed if there are several, and the reported effect and the threshold as
    horizontal lines. The result is empty if a side has no curve. A verdict is about the end of training. These points show
    whether an earlier verdict would have been different, and the trend of the effect.
    """
    courses = [_curves(side, scores) for side in claim.all_sides.values()]
    each = [_effect(claim, [course[seed] for course in courses]) for seed in courses[0] if all(seed in c for c in courses)]
    if not each:
        return pd.DataFrame(columns=["group", "x", "y"], dtype=str)
    common = pd.concat(each, axis=1, join="inner")
    means = from_additive(claim.effect, to_additive(claim.effect, common.to_numpy()).mean(axis=1))
    mean = pd.Series(means, index=common.index)
    lines = {REPORTED: reported_effect(claim, declared), THRESHOLD: claim.threshold}
    ends = [mean.index[0], mean.index[-1]]
    parts = [(MEAN, mean), *((SEED, effect) for effect in each if len(each) > 1)]
    parts += [(group, pd.Series(y, index=ends)) for group, y in lines.items() if y is not None]
    return pd.concat(
        pd.DataFrame({"group": group, "x": line.index.astype(str), "y": [f"{y:.6g}" for y in line]}) for group, line in parts
    )


def _curves(side: ClaimSide, scores: TaskScores) -> dict[int, pd.Series]:
    """Return seed -> metric by training step, for seeds with a curve."""
    found, run = {}, scores.choose(side.runs, data=side.data)
    for name in scores.repetitions.get(run or "", []):
        x, y = scores.curve(name, ON_CURVES.get(side.metric, side.metric))
        if len(x):
            found[scores.lines[name].seed] = pd.Series(np.exp(y) if side.metric in ON_CURVES else y, index=x.astype(int))
    return found


def _effect(claim: Claim, curves: list[pd.Series]) -> pd.Series:
    """Return the effect at the training steps that all curves have."""
    common = reduce(pd.Index.intersection, (curve.index for curve in curves))
    values = combined_effect(claim.effect, [curve.loc[common].to_numpy() for curve in curves])
    return pd.Series(values, index=common)


HEADER = ["panel", "run", "group", "x", "y"]


@dataclass
class PanelPoints:
    """A panel with its points, and with {of} filled in its title and y label."""

    panel: Panel
    title: str
    y: str
    rows: pd.DataFrame  # columns HEADER, as text
    absent: dict[str, str]  # legend -> why it has no points
    marks: dict[str, float]  # legend -> training step of a vertical line


def figure_points(figure: Figure, scores: dict[str, TaskScores], declared: Declarations) -> list[PanelPoints]:
    return [_panel_points(panel, scores[panel.task or figure.task], declared) for panel in figure.panels]


def _panel_points(panel: Panel, scores: TaskScores, declared: Declarations) -> PanelPoints:
    if panel.kind == "sweep":
        return _sweep_points(panel, scores)
    if panel.kind == "effect":
        return _effect_panel(panel, scores, declared)
    rows, absent, marks, endings = [pd.DataFrame(columns=HEADER, dtype=str)], {}, {}, []
    for legend, names in panel.runs.items():
        run = scores.choose(names, data=panel.data)
        if run is None:
            absent[legend] = f"none of {', '.join(names)} is {'scored' if panel.data else 'on the run sheet'}"
            continue
        points = scores.points(run)
        ending = _ending(panel, list(points.series.unique()))
        own = points[points.series == f"{panel.series}{ending}"]
        own = own if panel.groups is None else own[own.group.isin(panel.groups)]
        if own.empty:
            what = f"fewer than {panel.nth} series {panel.series}…" if panel.nth else f"no {panel.series or panel.metric}"
            absent[legend] = f"{run} has {what}"
            continue
        rows.append(own.assign(run=legend))
        endings.append(ending)
        if panel.mark and (step := scores.option(run, panel.mark)):
            marks[legend] = step
    of = next(filter(None, endings), "…")
    title, y = (text.replace("{of}", of) for text in (panel.title, panel.y))
    return PanelPoints(panel, title, y, pd.concat(rows).assign(panel=title)[HEADER], absent, marks)


def _ending(panel: Panel, series: list[str]) -> str | None:
    """Return the suffix of the nth series whose name begins with the panel's series, or None if there are fewer.

    Without nth the suffix is empty.
    """
    if not panel.nth:
        return ""
    start = panel.series or ""
    endings = [name.removeprefix(start) for name in series if name.startswith(start)]
    if all(map(str.isdigit, endings)):  # training steps
        endings.sort(key=int)
    return endings[panel.nth - 1] if panel.nth <= len(endings) else None


def _effect_panel(panel: Panel, scores: TaskScores, declared: Declarations) -> PanelPoints:
    claim = declared.claims[panel.claim or ""]
    _, view = nearest(declared.settings, scores, claim)
    rows = effect_points(claim, view, declared).assign(panel=panel.title, run=panel.claim)
    runs = " or ".join(dict.fromkeys(name for side in claim.sides.values() for name in side.runs))
    absent = {panel.claim or "": f"no curves of {runs}"} if rows.empty else {}
    return PanelPoints(panel, panel.title, panel.y, rows[HEADER], absent, {})


def _sweep_points(panel: Panel, scores: TaskScores) -> PanelPoints:
    """Return a point for each value of the option in the runs' score files. The names of the runs do not matter.

    y is the mean over the seeds that all runs have. The points of group `seed` are these seeds one by one.
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
        if (kept := value.for_seeds(common) or value)
        for group, y in [("", kept.mean), *(("seed", y) for y in kept.values if len(kept.values) > 1)]
    ]
    return PanelPoints(panel, panel.title, panel.y, pd.DataFrame(rows, columns=HEADER, dtype=str), absent, {})
