"""Points of runs: the series of reports/runs/<task>/<run>.csv, those that a panel declares, and numbers read off a curve."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from raretokens.reporting.declarations.schema import Figure, Panel, Side
from raretokens.reporting.scored import Scores

Series = dict[str, list[tuple[str, str, str]]]  # name -> (group, x, y) of each point, as the file has them


@dataclass
class PanelPoints:
    """A panel with its points; {of} is filled in title and y."""

    panel: Panel
    title: str
    y: str
    rows: list[dict[str, str]] = field(default_factory=list)  # panel, run, group, x, y
    absent: dict[str, str] = field(default_factory=dict)  # legend -> why it has no points
    marks: dict[str, float] = field(default_factory=dict)  # legend -> update


def read(path: Path) -> Series:
    """All series of a file; none where there is no file."""
    found: Series = {}
    if path.is_file():
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(row["series"], []).append((row["group"], row["x"], row["y"]))
    return found


def of_figure(figure: Figure, scores: dict[str, Scores]) -> list[PanelPoints]:
    return [_of_panel(panel, scores[panel.task or figure.task]) for panel in figure.panels]


def at(side: Side, scores: Scores, name: str) -> float | None:
    """Value of a run's curve at a moment of training; None where the run has no such curve.

    A share is of the last update (the nearest point counts); `until` is the run's option of that name.
    """
    series, _, group = side.metric.partition(".")
    found = read(scores.points(name)).get(series, [])
    curve = [(float(x), float(y)) for own, x, y in found if own == group or not group]
    if not curve or side.at == "until" and _option(scores, name, "until") is None:
        return None
    match side.at:
        case "first":
            return curve[0][1]
        case "last":
            return curve[-1][1]
        case "lowest" | "highest":
            return {"lowest": min, "highest": max}[side.at](y for _, y in curve)
        case "until":
            moment = _option(scores, name, "until")
        case share:
            moment = share * curve[-1][0]
    return min(curve, key=lambda point: abs(point[0] - moment))[1]


def of_all_runs(scores: Scores, folder: Path) -> str:
    """The curves of all runs of a task (folder/<run>.csv) as one table with a column `run`: what `dvc plots` draws."""
    lines: list[str] = []
    for name in scores.lines:
        path = folder / f"{name}.csv"
        if path.is_file():
            header, *rows = path.read_text(encoding="utf-8").splitlines()
            lines += [*([] if lines else [f"run,{header}"]), *(f"{name},{row}" for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _of_panel(panel: Panel, scores: Scores) -> PanelPoints:
    found, of = PanelPoints(panel, panel.title, panel.y), None
    for legend, names in panel.runs.items():
        stem = scores.choose(names, data=panel.data)
        if stem is None:
            where = "is scored" if panel.data else "is on the run sheet"
            found.absent[legend] = f"none of {', '.join(names)} {where}"
            continue
        rows, ending = _swept(panel, scores, stem) if panel.kind == "sweep" else _listed(panel, scores.points(stem))
        found.rows += [{"run": legend, "group": group, "x": x, "y": y} for group, x, y in rows]
        of = of or ending
        if not rows:
            found.absent[legend] = f"{stem} has {_what(panel)}"
        elif panel.mark and (update := _option(scores, stem, panel.mark)):
            found.marks[legend] = update
    found.title, found.y = (text.replace("{of}", of or "…") for text in (panel.title, panel.y))
    found.rows = [{"panel": found.title, **row} for row in found.rows]
    return found


def _what(panel: Panel) -> str:
    if panel.nth:
        return f"fewer than {panel.nth} series {panel.series}…"
    return f"no {panel.series or panel.metric}"


def _listed(panel: Panel, path: Path) -> tuple[list[tuple[str, str, str]], str | None]:
    """Points of the panel's series, and what its name ends in where it is the nth of several."""
    found, name = read(path), panel.series or ""
    endings = [key.removeprefix(name) for key in found if key.startswith(name)] if panel.nth else [""]
    if all(map(str.isdigit, endings)):  # updates
        endings.sort(key=int)
    if panel.nth and panel.nth > len(endings):
        return [], None
    ending = endings[(panel.nth or 1) - 1]
    rows = found.get(name + ending, [])
    return [row for row in rows if panel.groups is None or row[0] in panel.groups], ending or None


def _swept(panel: Panel, scores: Scores, stem: str) -> tuple[list[tuple[str, str, str]], None]:
    """One point: the run's option, and its metric (the mean over seeds)."""
    value, option = scores.value(stem, panel.metric or ""), _option(scores, stem, panel.option or "")
    return ([("", f"{option:g}", f"{value.mean:.6g}")] if value and option is not None else []), None


def _option(scores: Scores, name: str, option: str) -> float | None:
    return dict((scores.read(name) or {}).get("options", [])).get(option)
